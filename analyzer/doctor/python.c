/* SPDX-License-Identifier: Apache-2.0
 *
 * By which modules a Python program would come to MPI and NCCL.
 * Lives here: the question to the interpreter. mpi4py is imported, without MPI_Init, since only it knows which MPI it
 * loads; larger modules are only looked for.
 */
#include <stdio.h>
#include <string.h>

#include "analyzer/doctor/child.h"
#include "analyzer/doctor/doctor.h"

/* A line per answer: what, a tab, where. */
static const char question[] =
    "import glob, importlib.util\n"
    "def places(name):\n"
    "    try:\n"
    "        spec = importlib.util.find_spec(name)\n"
    "    except Exception:\n"
    "        return []\n"
    "    return list(spec.submodule_search_locations or []) if spec else []\n"
    "def say(what, found):\n"
    "    print('commtap', what, found, sep='\\t', flush=True)\n"
    "for place in places('torch'):\n"
    "    for path in glob.glob(place + '/lib/libtorch_cuda.so') + glob.glob(place + '/lib/libtorch_hip.so'):\n"
    "        say('torch', path)\n"
    "for place in places('nvidia.nccl'):\n"
    "    for path in glob.glob(place + '/lib/libnccl.so*'):\n"
    "        say('nccl', path)\n"
    "if places('mpi4py'):\n"
    "    try:\n"
    "        import mpi4py\n"
    "        mpi4py.rc.initialize = mpi4py.rc.finalize = False\n"
    "        from mpi4py import MPI\n"
    "        paths = [line.split()[-1] for line in open('/proc/self/maps') if '/' in line]\n"
    "        names = ('libmpi.so', 'libmpich.so', 'libmpi_abi.so', 'libmpi')\n"
    "        found = [path for name in names for path in paths if path.rpartition('/')[2].startswith(name)]\n"
    "        say('mpi', found[0] if found else '')\n"
    "    except Exception as error:\n"
    "        say('mpi4py', str(error).partition('\\n')[0])\n";

/* The answer to `what`; false: none. */
static bool answer_of(const char *text, const char *what, char *answer, size_t size) {
    char start[32];
    snprintf(start, sizeof start, "commtap\t%s\t", what);
    const char *found = strstr(text, start);
    if (!found)
        return false;
    found += strlen(start);
    snprintf(answer, size, "%.*s", (int)strcspn(found, "\n"), found);
    return true;
}

/* PyTorch's own library says how NCCL comes into it. */
static void look_at_torch(struct doctor *doctor, const char *path) {
    struct loaded_libraries list;
    struct program_file torch;
    char nccl[PATH_MAX];
    if (doctor->nccl_bound != BOUND_NOT || !program_file_read(&torch, path))
        return;
    if (torch.defines_nccl) {
        doctor->nccl_bound = BOUND_STATIC;
        checks_add(&doctor->checks, CHECK_BLOCKED, "nccl",
                   "PyTorch has NCCL linked into it statically: its calls do not come by a library; from 2.27 on its "
                   "profiler plugin at least counts them: %s\nuse a PyTorch with libnccl.so, as the wheels are",
                   path);
        return;
    }
    libraries_list(&list, doctor->file.interpreter, path, "");
    if (libraries_find(&list, "libnccl.so", nccl) || libraries_find(&list, "librccl.so", nccl)) {
        doctor->nccl_bound = BOUND_WHILE_RUNNING;
        library_ask_nccl(&doctor->nccl, nccl);
    }
}

void doctor_ask_python(struct doctor *doctor) {
    static char text[16384];
    char answer[PATH_MAX];
    char *const argv[] = {doctor->binary, (char *)"-c", (char *)question, NULL};
    bool told = child_run(argv, NULL, NULL, text, sizeof text);
    if (answer_of(text, "torch", answer, sizeof answer))
        look_at_torch(doctor, answer);
    if (doctor->nccl_bound == BOUND_NOT && answer_of(text, "nccl", answer, sizeof answer)) {
        doctor->nccl_bound = BOUND_WHILE_RUNNING;
        library_ask_nccl(&doctor->nccl, answer);
    }
    if (doctor->mpi_bound == BOUND_NOT && answer_of(text, "mpi", answer, sizeof answer)) {
        doctor->mpi_bound = BOUND_WHILE_RUNNING;
        if (answer[0])
            library_ask_mpi(&doctor->mpi, answer);
    }
    if (answer_of(text, "mpi4py", answer, sizeof answer))
        checks_add(&doctor->checks, CHECK_PART, "mpi",
                   "mpi4py is there, and cannot be imported: %s\nas for the job, load the "
                   "module of the MPI that it was built for",
                   answer);
    if (!told)
        checks_add(&doctor->checks, CHECK_PART, "program", "%s did not say which modules it has", doctor->binary);
}
