/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz target once over each file that is named, without libFuzzer: what was found once stays found.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
    static uint8_t data[1 << 16];
    for (int i = 1; i < argc; i++) {
        FILE *stream = fopen(argv[i], "rb");
        if (!stream) {
            perror(argv[i]);
            return EXIT_FAILURE;
        }
        size_t size = fread(data, 1, sizeof data, stream);
        fclose(stream);
        fprintf(stderr, "%s\n", argv[i]); /* the last line before a report says which */
        LLVMFuzzerTestOneInput(data, size);
    }
    return EXIT_SUCCESS;
}
