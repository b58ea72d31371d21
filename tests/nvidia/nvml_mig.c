/* The MIG half of nvml.c: GPU instances and compute instances, and how they are made and destroyed. */
#include <stdlib.h>
#include <string.h>

#include "cards.h"

static Device *of_gpu_instance(nvmlGpuInstance_t instance) { return (Device *)instance.handle; }
static Device *of_compute_instance(nvmlComputeInstance_t compute) { return (Device *)compute.handle; }

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t d, unsigned int profile, nvmlGpuInstanceProfileInfo_t *info)
{
    if (d.handle->mig < 0 || profile >= PROFILES || !d.handle->profiles[profile].there)
        return NVML_ERROR_NOT_SUPPORTED;
    GIVE(info, d.handle->profiles[profile].facts);
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t d, unsigned int id, nvmlGpuInstance_t *instances, unsigned int *found)
{
    *found = 0;
    for (int at = 0; at < INSTANCES; at++)
        if (d.handle->migs[at] && d.handle->migs[at]->profile->facts.id == id)
            instances[(*found)++].handle = (struct nvmlGpuInstance_st *)d.handle->migs[at];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t d, unsigned int id, nvmlGpuInstance_t *instance)
{
    if (id < 1 || id > INSTANCES || !d.handle->migs[id - 1])
        return NVML_ERROR_NOT_FOUND;
    GIVE(&instance->handle, (struct nvmlGpuInstance_st *)d.handle->migs[id - 1]);
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
    const Device *mig = of_gpu_instance(instance);
    memset(info, 0, sizeof *info);
    info->device.handle = mig->parent;
    info->id = (unsigned int)mig->index + 1;
    GIVE(&info->profileId, mig->profile->facts.id);
}

/* Whether the media engines that instances have leave some for one more. */
static int has_engines(const Device *gpu, const Profile *wanted)
{
    nvmlGpuInstanceProfileInfo_t sum = wanted->facts;
    for (int at = 0; at < INSTANCES; at++) {
        if (!gpu->migs[at])
            continue;
        const nvmlGpuInstanceProfileInfo_t *one = &gpu->migs[at]->profile->facts;
        sum.decoderCount += one->decoderCount, sum.encoderCount += one->encoderCount;
        sum.jpegCount += one->jpegCount, sum.ofaCount += one->ofaCount;
    }
    return !gpu->shares_engines || (sum.decoderCount <= gpu->engines.decoderCount && sum.jpegCount <= gpu->engines.jpegCount
        && sum.encoderCount <= gpu->engines.encoderCount && sum.ofaCount <= gpu->engines.ofaCount);
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t d, unsigned int id, nvmlGpuInstance_t *instance)
{
    Device *gpu = d.handle;
    Profile *profile = NULL;
    unsigned int used = 0, alike = 0;
    for (int at = 0; at < PROFILES; at++)
        if (gpu->profiles[at].there && gpu->profiles[at].facts.id == id)
            profile = &gpu->profiles[at];
    if (!profile)
        return NVML_ERROR_NOT_SUPPORTED;
    for (int at = 0; at < INSTANCES; at++)
        if (gpu->migs[at])
            used |= gpu->migs[at]->slices, alike += gpu->migs[at]->profile == profile;
    for (unsigned int start = 0; start < 32 && alike < profile->facts.instanceCount && has_engines(gpu, profile); start++) {
        unsigned int slices = ((1U << profile->size) - 1) << start;
        if (!(profile->starts >> start & 1) || used & slices)
            continue;
        Device *made = new_instance(gpu, profile, "MIG-made-here");
        if (!made)
            break;
        made->start = start, made->slices = slices, instances_changed = 1;
        GIVE(&instance->handle, (struct nvmlGpuInstance_st *)made);
    }
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance)
{
    Device *mig = of_gpu_instance(instance);
    if (mig->computes)
        return NVML_ERROR_IN_USE;
    mig->parent->migs[mig->index] = NULL;
    free(mig);
    instances_changed = 1;
    return NVML_SUCCESS;
}

/* Compute instances. Profile N has the slices of NVML's constant N; an instance has one, of all its slices. */
static const unsigned int slices_of[] = {1, 2, 3, 4, 7, 8, 6};

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned int profile,
                                                          unsigned int engines, nvmlComputeInstanceProfileInfo_t *info)
{
    unsigned int most = of_gpu_instance(instance)->profile->facts.sliceCount;
    if (engines || profile >= sizeof slices_of / sizeof *slices_of || slices_of[profile] > most)
        return NVML_ERROR_NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    info->instanceCount = most / slices_of[profile];
    info->id = info->sliceCount = slices_of[profile];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *computes,
                                                unsigned int *found)
{
    const Device *mig = of_gpu_instance(instance);
    *found = mig->computes && mig->profile->facts.sliceCount == id;
    if (*found)
        computes[0].handle = (struct nvmlComputeInstance_st *)mig;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *compute)
{
    if (id)
        return NVML_ERROR_NOT_FOUND;
    GIVE(&compute->handle, (struct nvmlComputeInstance_st *)instance.handle);
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t *info)
{
    Device *mig = of_compute_instance(compute);
    memset(info, 0, sizeof *info);
    info->device.handle = mig->parent;
    info->gpuInstance.handle = (struct nvmlGpuInstance_st *)mig;
    GIVE(&info->profileId, mig->profile->facts.sliceCount);
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *compute)
{
    Device *mig = of_gpu_instance(instance);
    if (mig->computes || mig->profile->facts.sliceCount != id)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    mig->computes = instances_changed = 1;
    GIVE(&compute->handle, (struct nvmlComputeInstance_st *)mig);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute)
{
    of_compute_instance(compute)->computes = 0;
    instances_changed = 1;
    return NVML_SUCCESS;
}
