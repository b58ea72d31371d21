/* An NVML library without a GPU, for tests alone: the cards and MIG instances that a file lists.
 *
 * It has the functions that k8s-device-plugin v0.19.0 and mig-parted v0.13.1 call, with the types of NVIDIA's
 * nvml.h (from the Go module go-nvml, never copied). Health has no events. A function that is not here ends
 * the program that calls it, by name.
 *
 * Instances that a program creates begin at the first place that is free, within the limits of the profile
 * and the media engines of the GPU; the file's own are taken as they are. The file is the one that NODE_GPUS
 * names, one record per line (tests/nvidia/node.py writes it):
 *   driver  VERSION CUDA                     CUDA as NVML numbers it: 13010 is 13.1
 *   gpu     UUID BUS MIB MAJOR MINOR MIG CLIQUE NAME   MIG: -1 it has none, 0 off, 1 on; CLIQUE: 0 no fabric
 *   engines DECODE ENCODE JPEG OFA           of the GPU above, where instances share them
 *   profile INDEX ID SLICES MIB SM COPY DECODE ENCODE JPEG OFA MOST SIZE STARTS
 *           of the GPU above; INDEX: NVML's constant; SIZE: memory slices; STARTS: a bit for each that it may have
 *   mig     UUID INDEX                       an instance of the GPU above
 * What there is after a change is written to the file that NODE_INSTANCES names: GPU INDEX START, one per line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cards.h"

static Device *gpus[GPUS];
static unsigned int count;
static char driver[96];
static int cuda;
int instances_changed;

Device *new_instance(Device *gpu, Profile *profile, const char *uuid)
{
    for (int at = 0; at < INSTANCES; at++) {
        if (gpu->migs[at])
            continue;
        Device *one = gpu->migs[at] = calloc(1, sizeof *one);
        snprintf(one->uuid, sizeof one->uuid, "%s", uuid);
        one->parent = gpu, one->index = at, one->profile = profile, one->mib = profile->facts.memorySizeMB;
        return one;
    }
    return NULL;
}

static nvmlReturn_t read_line(const char *line)
{
    Device *gpu = count ? gpus[count - 1] : NULL, given = {0};
    Profile read = {.there = 1};
    nvmlGpuInstanceProfileInfo_t *p = &read.facts;

    if (sscanf(line, "driver %95s %d", driver, &cuda) == 2)
        return NVML_SUCCESS;
    if (sscanf(line, "gpu %95s %31s %llu %d %d %d %d %95[^\n]", given.uuid, given.bus, &given.mib, &given.major,
               &given.minor, &given.mig, &given.clique, given.name) == 8 && count < GPUS) {
        given.index = (int)count;
        gpus[count++] = memcpy(malloc(sizeof given), &given, sizeof given);
        return NVML_SUCCESS;
    }
    if (gpu && sscanf(line, "engines %u %u %u %u", &p->decoderCount, &p->encoderCount, &p->jpegCount,
                      &p->ofaCount) == 4) {
        gpu->shares_engines = 1, gpu->engines = *p;
        return NVML_SUCCESS;
    }
    if (gpu && sscanf(line, "profile %u %u %u %llu %u %u %u %u %u %u %u %u %u", &read.index, &p->id, &p->sliceCount,
                      &p->memorySizeMB, &p->multiprocessorCount, &p->copyEngineCount, &p->decoderCount,
                      &p->encoderCount, &p->jpegCount, &p->ofaCount, &p->instanceCount, &read.size,
                      &read.starts) == 13 && read.index < PROFILES) {
        gpu->profiles[read.index] = read;
        return NVML_SUCCESS;
    }
    if (gpu && sscanf(line, "mig %95s %u", given.uuid, &read.index) == 2 && read.index < PROFILES
        && gpu->profiles[read.index].there) {
        Device *one = new_instance(gpu, &gpu->profiles[read.index], given.uuid);
        return one ? (one->computes = 1, NVML_SUCCESS) : NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    fprintf(stderr, "NODE_GPUS: can't read the line: %s", line);
    return NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlInit_v2(void)
{
    char line[512];
    nvmlReturn_t result = NVML_SUCCESS;
    const char *path = getenv("NODE_GPUS");
    if (count)
        return NVML_SUCCESS;
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    while (result == NVML_SUCCESS && fgets(line, sizeof line, file))
        result = read_line(line);
    fclose(file);
    return result;
}

nvmlReturn_t nvmlShutdown(void)
{
    const char *path = getenv("NODE_INSTANCES");
    FILE *file = instances_changed && path ? fopen(path, "w") : NULL;
    if (!file)
        return NVML_SUCCESS;
    for (unsigned int at = 0; at < count; at++)
        for (int one = 0; one < INSTANCES; one++)
            if (gpus[at]->migs[one] && gpus[at]->migs[one]->computes)
                fprintf(file, "%u %u %u\n", at, gpus[at]->migs[one]->profile->index, gpus[at]->migs[one]->start);
    instances_changed = 0;
    return fclose(file) ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    static char text[32];
    if (result == NVML_ERROR_INSUFFICIENT_RESOURCES)
        return "Insufficient Resources";
    snprintf(text, sizeof text, "NVML error %d", (int)result);
    return text;
}

static nvmlReturn_t give(char *target, unsigned int length, const char *text)
{
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(target, text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *to, unsigned int length) { return give(to, length, driver); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *to, unsigned int length) { return give(to, length, "13.0"); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { GIVE(version, cuda); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *found) { GIVE(found, count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    if (index >= count)
        return NVML_ERROR_INVALID_ARGUMENT;
    GIVE(&device->handle, gpus[index]);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device)
{
    for (unsigned int at = 0; at < count; at++) /* without the four zeros that NVML puts before the domain */
        if (!strcasecmp(gpus[at]->bus + 4, bus))
            GIVE(&device->handle, gpus[at]);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    for (unsigned int at = 0; at < count; at++) {
        if (!strcmp(gpus[at]->uuid, uuid))
            GIVE(&device->handle, gpus[at]);
        for (int one = 0; one < INSTANCES; one++)
            if (gpus[at]->migs[one] && !strcmp(gpus[at]->migs[one]->uuid, uuid))
                GIVE(&device->handle, gpus[at]->migs[one]);
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *to, unsigned int size) { return give(to, size, d.handle->name); }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *to, unsigned int size) { return give(to, size, d.handle->uuid); }
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned int *to) { GIVE(to, (unsigned int)d.handle->index); }

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *memory)
{
    memory->total = memory->free = d.handle->mib << 20;
    GIVE(&memory->used, 0);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor)
{
    *major = d.handle->major;
    GIVE(minor, d.handle->minor);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
    memset(pci, 0, sizeof *pci);
    return give(pci->busId, sizeof pci->busId, d.handle->bus);
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *info)
{
    memset(info, 0, sizeof *info);
    if (!d.handle->clique)
        return NVML_ERROR_NOT_SUPPORTED;
    memset(info->clusterUuid, 0xab, sizeof info->clusterUuid);
    info->state = NVML_GPU_FABRIC_STATE_COMPLETED;
    GIVE(&info->cliqueId, (unsigned int)d.handle->clique);
}

/* MIG: mode, and the devices that there are */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *current, unsigned int *pending)
{
    if (d.handle->parent || d.handle->mig < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *pending = (unsigned int)d.handle->mig;
    GIVE(current, (unsigned int)d.handle->mig);
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t d, unsigned int mode, nvmlReturn_t *status)
{
    if (d.handle->mig < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    d.handle->mig = (int)mode;
    GIVE(status, NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int *to) { GIVE(to, d.handle->mig < 0 ? 0 : INSTANCES); }
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, unsigned int *to) { GIVE(to, d.handle->parent != NULL); }

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int index, nvmlDevice_t *mig)
{
    if (index >= INSTANCES || !d.handle->migs[index] || !d.handle->migs[index]->computes)
        return NVML_ERROR_NOT_FOUND;
    GIVE(&mig->handle, d.handle->migs[index]);
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    if (!mig.handle->parent)
        return NVML_ERROR_INVALID_ARGUMENT;
    GIVE(&device->handle, mig.handle->parent);
}

/* Numbers of GPU instances begin at 1 here, so that one taken for an index is noticed. */
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t mig, unsigned int *to) { GIVE(to, (unsigned int)mig.handle->index + 1); }

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t mig, unsigned int *to)
{
    (void)mig;
    GIVE(to, 0);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t mig, nvmlDeviceAttributes_t *a)
{
    if (!mig.handle->parent)
        return NVML_ERROR_NOT_SUPPORTED;
    const nvmlGpuInstanceProfileInfo_t *p = &mig.handle->profile->facts;
    a->multiprocessorCount = p->multiprocessorCount;
    a->sharedCopyEngineCount = p->copyEngineCount;
    a->sharedDecoderCount = p->decoderCount;
    a->sharedEncoderCount = p->encoderCount;
    a->sharedJpegCount = p->jpegCount;
    a->sharedOfaCount = p->ofaCount;
    a->gpuInstanceSliceCount = a->computeInstanceSliceCount = p->sliceCount;
    GIVE(&a->memorySizeMB, p->memorySizeMB);
}

/* Health: nothing ever happens. */

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) { GIVE(&set->handle, (struct nvmlEventSet_st *)gpus); }

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    (void)set;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *types)
{
    (void)d;
    GIVE(types, ~0ULL);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, nvmlEventSet_t set)
{
    (void)d, (void)types, (void)set;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int milliseconds)
{
    (void)set, (void)data;
    usleep(milliseconds * 1000);
    return NVML_ERROR_TIMEOUT;
}
