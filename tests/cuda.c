/* The calls of CUDA's driver that the self-test makes: memory that is allocated is in the library of tests/nvml.c.
 *
 * $CUDA_GPU is the UUID of the GPU; without it there is none. $CUDA_BYTES, if set, is what NVML shows instead. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { OK = 0, NO_DEVICE = 100 };

int cuInit(unsigned flags) { (void)flags; return getenv("CUDA_GPU") ? OK : NO_DEVICE; }
int cuDeviceGet(int *device, int index) { *device = index; return OK; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &cuInit; return OK; }
int cuCtxSetCurrent(void *context) { return context == &cuInit ? OK : 201; }

int cuMemAlloc_v2(unsigned long long *memory, size_t size) {
    const char *shown = getenv("CUDA_BYTES");
    FILE *file = fopen(getenv("NVML_STATE"), "a");
    if (!file) return 2;
    *memory = size;
    fprintf(file, "process %s %d %llu 5\n", getenv("CUDA_GPU"), getpid(), shown ? strtoull(shown, NULL, 10) : size);
    return fclose(file) ? 2 : OK;
}

int cuMemsetD8_v2(unsigned long long memory, unsigned char value, size_t size) { (void)value; return memory == size ? OK : 1; }
int cuCtxSynchronize(void) { return OK; }
