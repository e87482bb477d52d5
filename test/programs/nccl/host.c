/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that has never heard of NCCL and runs modules that bring it, each in its own local scope, as an interpreter
 * does with its extensions.
 *
 *   host MODULE[,MODULE...] SCENE RANK RANKS FOLDER
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    int failed = 0;
    for (char *path = argc > 1 ? strtok(argv[1], ",") : NULL; path; path = strtok(NULL, ",")) {
        void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        int (*exercise)(int, char **) = module ? (int (*)(int, char **))dlsym(module, "exercise") : NULL;
        if (!exercise) {
            fprintf(stderr, "%s\n", dlerror());
            return 3;
        }
        failed |= exercise(argc - 1, argv + 1);
    }
    return failed;
}
