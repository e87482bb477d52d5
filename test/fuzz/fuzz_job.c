/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: a command over the dumps of a job.
 * Lives here: the order of an input's parts: one step of 16 bytes for the command line, one for the job's size, then
 * what the job does and what is wrong with its dumps (job.h).
 * Must not live here: expectations; a crash, a hang or a sanitizer's report is the finding.
 */
#include <stdint.h>
#include <string.h>

#include "test/fuzz/job.h"
#include "test/fuzz/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t head[LINE_BYTES] = {0};
    struct line line;
    struct played played, before;
    memcpy(head, data, size < LINE_BYTES ? size : LINE_BYTES);
    line_make(&line, head);
    size_t rest = size < LINE_BYTES ? size : LINE_BYTES;
    bool two = line.command == &command_diff;
    job_play(&played, data + rest, size - rest, true);
    if (two)
        job_play(&before, data + rest, size - rest, false);
    bool files = step_at(data, size, 1).where & 0x20;
    line_add(&line, (files ? memory_directory_of_files : memory_directory)(0, played.dumps, played.count));
    if (two)
        line_add(&line, (files ? memory_directory_of_files : memory_directory)(1, before.dumps, before.count));
    line_run(&line);
    played_free(&played);
    if (two)
        played_free(&before);
    return 0;
}
