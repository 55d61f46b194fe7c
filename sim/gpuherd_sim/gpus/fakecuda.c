/* A stand-in for NVIDIA's libcuda.so.1 with the calls that smoke work makes, for hosts without a GPU.
 *
 * Memory "on the GPU" is the host's. GPUHERD_FAKE_CUDA says what is wrong:
 *   (unset)             nothing
 *   fail:CALL:CODE      CALL returns CODE
 *   hang:CALL           CALL never returns
 *   copy                one bit of each copy back is wrong
 *   kernel              the kernel computes one word wrong
 * GPUHERD_FAKE_CUDA_UUID overrides the UUID, else that of CUDA_VISIBLE_DEVICES is told.
 * Signatures: cuda.h, CUDA driver API 12.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;

static const char *fault(void) {
    const char *text = getenv("GPUHERD_FAKE_CUDA");
    return text ? text : "";
}

static CUresult begin(const char *call) {
    const char *text = fault();
    size_t length = strlen(call);
    if (!strncmp(text, "hang:", 5) && !strcmp(text + 5, call))
        for (;;) pause();
    if (!strncmp(text, "fail:", 5) && !strncmp(text + 5, call, length) && text[5 + length] == ':')
        return atoi(text + 5 + length + 1);
    return 0;
}

#define BEGIN do { CUresult code = begin(__func__); if (code) return code; } while (0)

CUresult cuInit(unsigned flags) { (void)flags; BEGIN; return 0; }
CUresult cuDeviceGet(int *device, int ordinal) { BEGIN; *device = ordinal; return 0; }

CUresult cuDeviceGetUuid(unsigned char uuid[16], int device) {
    BEGIN;
    (void)device;
    const char *text = getenv("GPUHERD_FAKE_CUDA_UUID");
    if (!text) text = getenv("CUDA_VISIBLE_DEVICES");
    memset(uuid, 0, 16);
    if (!text || strncmp(text, "GPU-", 4)) return 0;
    int nibble = 0;
    for (const char *c = text + 4; *c && *c != ',' && nibble < 32; c++) {
        char digit[2] = {*c, 0};
        char *end;
        long value = strtol(digit, &end, 16);
        if (*end) continue;
        uuid[nibble / 2] |= (unsigned char)(value << (nibble % 2 ? 0 : 4));
        nibble++;
    }
    return 0;
}

CUresult cuCtxCreate_v2(void **context, unsigned flags, int device) {
    BEGIN;
    (void)flags;
    (void)device;
    *context = malloc(1);
    return 0;
}
CUresult cuCtxDestroy_v2(void *context) { BEGIN; free(context); return 0; }
CUresult cuCtxSynchronize(void) { BEGIN; return 0; }

CUresult cuMemAlloc_v2(CUdeviceptr *data, size_t size) {
    BEGIN;
    *data = (CUdeviceptr)(uintptr_t)malloc(size);
    return *data ? 0 : 2; /* CUDA_ERROR_OUT_OF_MEMORY */
}
CUresult cuMemFree_v2(CUdeviceptr data) { BEGIN; free((void *)(uintptr_t)data); return 0; }

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) {
    BEGIN;
    memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
    BEGIN;
    memcpy(to, (const void *)(uintptr_t)from, size);
    if (!strcmp(fault(), "copy")) ((unsigned char *)to)[size / 2] ^= 1;
    return 0;
}

CUresult cuModuleLoadData(void **module, const void *image) {
    BEGIN;
    if (!strstr(image, ".entry mix(")) return 218; /* CUDA_ERROR_INVALID_PTX */
    *module = (void *)1;
    return 0;
}
CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
    BEGIN;
    (void)module;
    if (strcmp(name, "mix")) return 500; /* CUDA_ERROR_NOT_FOUND */
    *function = (void *)2;
    return 0;
}

CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, void *stream, void **arguments, void **extra) {
    BEGIN;
    (void)function; (void)gy; (void)gz; (void)by; (void)bz; (void)shared; (void)stream; (void)extra;
    uint32_t *data = (uint32_t *)(uintptr_t)*(CUdeviceptr *)arguments[0];
    uint32_t count = *(uint32_t *)arguments[1], seed = *(uint32_t *)arguments[2];
    for (uint64_t i = 0; i < (uint64_t)gx * bx && i < count; i++) data[i] = data[i] * seed + (uint32_t)i;
    if (!strcmp(fault(), "kernel")) data[count / 3] += 1;
    return 0;
}
