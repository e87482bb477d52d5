/* SPDX-License-Identifier: Apache-2.0
 *
 * See device.h.
 */
#include "test/standin/nccl/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define MAX_DEVICES     64
#define DRIVER_VERSION  12000 /* whose names and signatures are asked for */
#define CAPTURE_NONE    0
#define CAPTURE_INVALID 2

static struct device_functions driver;
static bool loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The driver's own table of names first; what it adds as a stand-in is an ordinary symbol. */
static void *entry_point(void *library, const char *symbol) {
    void *found = NULL;
    int (*get)(const char *, void **, int, uint64_t, int *) =
        (int (*)(const char *, void **, int, uint64_t, int *))dlsym(library, "cuGetProcAddress_v2");
    if (strncmp(symbol, "cu", 2) != 0)
        return dlsym(library, symbol);
    if (get && get(symbol, &found, DRIVER_VERSION, 0, NULL) == 0)
        return found;
    return NULL;
}

static void load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    bool all = true;
#define DEVICE_LOAD(name, symbol, ...)                                                                                 \
    *(void **)&driver.name = entry_point(library, symbol);                                                             \
    all = all && driver.name;
    DEVICE_FUNCTIONS(DEVICE_LOAD)
#undef DEVICE_LOAD
    int count = 0;
    loaded = all && driver.init(0) == 0 && driver.count(&count) == 0 && count > 0;
}

const struct device_functions *device_driver(void) {
    pthread_once(&once, load);
    return loaded ? &driver : NULL;
}

/* A reset destroys the device's primary context. */
static bool is_alive(device_context context) {
    device_context same;
    return context && driver.push(context) == 0 && driver.pop(&same) == 0;
}

device_context device_primary(int device) {
    static device_context contexts[MAX_DEVICES];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (!device_driver() || device < 0 || device >= MAX_DEVICES)
        return NULL;
    pthread_mutex_lock(&lock);
    if (!is_alive(contexts[device]) && driver.retain(&contexts[device], device) != 0)
        contexts[device] = NULL;
    device_context context = contexts[device];
    pthread_mutex_unlock(&lock);
    return context;
}

int device_of_thread(void) {
    device_context context = NULL;
    int device = 0;
    if (device_driver() && driver.current(&context) == 0 && context)
        driver.current_device(&device);
    return device;
}

void device_enter(device_context context) {
    driver.push(context);
}

void device_leave(void) {
    device_context context;
    driver.pop(&context);
}

bool device_capture(cudaStream_t stream, uint64_t *id) {
    int status = CAPTURE_NONE;
    *id = 0;
    if (driver.capture_info(stream, &status, id, NULL, NULL, NULL) != 0 || status == CAPTURE_INVALID)
        return false;
    if (status == CAPTURE_NONE)
        *id = 0;
    return true;
}
