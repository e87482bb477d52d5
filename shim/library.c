/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's beginning and end. The constructor runs in every process below a preload, most of which never
 * communicate: it reads the environment and does nothing else.
 */
#include "shim/recorder.h"

__attribute__((constructor)) static void library_begin(void) {
    knobs_read(&recorder.knobs);
    recorder.gave_up = !recorder.knobs.enable;
}

__attribute__((destructor)) static void library_end(void) {
    recorder_exit();
}
