/* What nvml.c and nvml_mig.c share: a GPU or MIG device as the file describes it. */
#include "nvml.h"

#define GPUS 16
#define INSTANCES 16
#define PROFILES NVML_GPU_INSTANCE_PROFILE_COUNT

typedef struct {
    int there;
    unsigned int index, size, starts;
    nvmlGpuInstanceProfileInfo_t facts;
} Profile;

/* One GPU or one MIG device; an instance is its own GPU instance and its own compute instance. */
typedef struct nvmlDevice_st {
    struct nvmlDevice_st *parent; /* NULL for a GPU */
    char uuid[96], name[96], bus[32];
    int index, major, minor, mig, clique, shares_engines;
    unsigned long long mib;
    nvmlGpuInstanceProfileInfo_t engines;
    Profile profiles[PROFILES];
    struct nvmlDevice_st *migs[INSTANCES];
    Profile *profile; /* of a MIG device */
    unsigned int start, slices; /* of a MIG device: its first memory slice, and all of them as bits */
    int computes;               /* of a MIG device: whether it has its compute instance */
} Device;

/* The next instance of a GPU; NULL where it has as many as there is room for. */
Device *new_instance(Device *gpu, Profile *profile, const char *uuid);

extern int instances_changed;

#define GIVE(target, value) \
    do { *(target) = (value); return NVML_SUCCESS; } while (0)
