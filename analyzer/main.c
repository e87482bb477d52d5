/* SPDX-License-Identifier: Apache-2.0
 *
 * commtap, the analyzer, as one process.
 */
#include "analyzer/program.h"

int main(int argc, char **argv) {
    return program_run(argc, argv, NULL);
}
