// What tch does not reach: determinism, float32 policy, devices, the CUDA allocator and libtorch's intra-op threads.
// No CUDA header is used. Every function gives 0, or 1 with the reason in torchlean_last_error().

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/headeronly/version.h>

#include <cstdint>
#include <exception>
#include <string>

#ifdef TORCHLEAN_CUDA_SDK
#include <dlfcn.h>

struct cudaDeviceProp;
namespace at::cuda {
cudaDeviceProp* getCurrentDeviceProperties(); // exported by libtorch_cuda.so
}
#endif

namespace {

thread_local std::string last_error;

template <class Body>
int32_t guarded(Body&& body) noexcept {
  const char* reason = "an exception that is no std::exception";
  try {
    try {
      body();
      return 0;
    } catch (const std::exception& error) {
      last_error = error.what();
    } catch (...) {
      last_error = reason;
    }
  } catch (...) { // no memory for the message
    last_error.clear();
  }
  return 1;
}

int64_t device_count() {
#ifdef TORCHLEAN_CUDA_SDK
  // Keeps libtorch_cuda.so linked: its address is needed, its value is not.
  static void* volatile keep = reinterpret_cast<void*>(&at::cuda::getCurrentDeviceProperties);
  (void)keep;
#endif
  return at::detail::getCUDAHooks().deviceCount();
}

c10::DeviceIndex checked(int64_t device) {
  const int64_t count = device_count();
  TORCH_CHECK(device >= 0 && device < count, "CUDA device ", device, " does not exist: ", count, " visible");
  return static_cast<c10::DeviceIndex>(device);
}

const c10::impl::DeviceGuardImplInterface* cuda() {
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
}

c10::DeviceAllocator* allocator() {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return c10::getDeviceAllocator(c10::DeviceType::CUDA);
}

} // namespace

extern "C" {

const char* torchlean_last_error() {
  return last_error.c_str();
}

// ---- determinism and float32 policy ----

int32_t torchlean_set_deterministic(int32_t on) {
  return guarded([=] { at::globalContext().setDeterministicAlgorithms(on != 0, /*warn_only=*/false); });
}

// What libtorch may do to float32 for speed, one bit each.
enum : uint32_t {
  TORCHLEAN_TF32_MATMUL = 1,
  TORCHLEAN_TF32_CUDNN = 2,
  TORCHLEAN_REDUCED_FP16_SUMS = 4,
  TORCHLEAN_REDUCED_BF16_SUMS = 8,
  TORCHLEAN_CUDNN_BENCHMARK = 16,
};

int32_t torchlean_float32_policy(uint32_t* out) {
  return guarded([=] {
    const at::Context& context = at::globalContext();
    const auto none = at::CuBLASReductionOption::DisallowReducedPrecisionAllowSplitK;
    uint32_t bits = 0;
    if (context.allowTF32CuBLAS()) bits |= TORCHLEAN_TF32_MATMUL;
    if (context.allowTF32CuDNN()) bits |= TORCHLEAN_TF32_CUDNN;
    if (context.allowFP16ReductionCuBLAS() < none || context.allowFP16AccumulationCuBLAS()) bits |= TORCHLEAN_REDUCED_FP16_SUMS;
    if (context.allowBF16ReductionCuBLAS() < none) bits |= TORCHLEAN_REDUCED_BF16_SUMS;
    if (context.benchmarkCuDNN()) bits |= TORCHLEAN_CUDNN_BENCHMARK;
    *out = bits;
  });
}

int32_t torchlean_set_float32_policy(uint32_t bits) {
  return guarded([=] {
    at::Context& context = at::globalContext();
    context.setFloat32MatmulPrecision(bits & TORCHLEAN_TF32_MATMUL ? "high" : "highest");
    context.setAllowTF32CuBLAS(bits & TORCHLEAN_TF32_MATMUL);
    context.setAllowTF32CuDNN(bits & TORCHLEAN_TF32_CUDNN);
    context.setAllowFP16ReductionCuBLAS(bits & TORCHLEAN_REDUCED_FP16_SUMS);
    context.setAllowFP16AccumulationCuBLAS(false);
    context.setAllowBF16ReductionCuBLAS(bits & TORCHLEAN_REDUCED_BF16_SUMS);
    context.setBenchmarkCuDNN(bits & TORCHLEAN_CUDNN_BENCHMARK);
  });
}

// ---- threads ----

// The body runs on libtorch's threads, on [begin, end) cut into pieces of at least `grain`. It must not unwind.
int32_t torchlean_parallel_for(
    int64_t begin,
    int64_t end,
    int64_t grain,
    void (*body)(void* context, int64_t begin, int64_t end),
    void* context) {
  return guarded([=] {
    at::parallel_for(begin, end, grain, [=](int64_t from, int64_t to) { body(context, from, to); });
  });
}

// ---- CUDA devices (an error where the SDK has no CUDA or the index is out of range) ----

// The visible devices; 0 where the SDK has no CUDA, and where there is no driver.
int32_t torchlean_cuda_device_count(int64_t* out) {
  return guarded([=] { *out = device_count(); });
}

int32_t torchlean_cuda_synchronize(int64_t device) {
  return guarded([=] { cuda()->synchronizeDevice(checked(device)); });
}

struct torchlean_cuda_identity {
  char name[256];
  uint64_t memory; // bytes
  int32_t capability_major;
  int32_t capability_minor;
  int32_t multiprocessors;
};

// From the driver, whose interface, unlike the runtime's cudaDeviceProp, is the same in every CUDA. Makes no context.
int32_t torchlean_cuda_device_identity(int64_t device, torchlean_cuda_identity* out) {
  return guarded([=] {
    [[maybe_unused]] const int index = checked(device);
    *out = {};
#ifdef TORCHLEAN_CUDA_SDK
    static void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    TORCH_CHECK(driver, "no CUDA driver: ", dlerror());
    const auto call = [](const char* name, auto... arguments) {
      const auto function = reinterpret_cast<int (*)(decltype(arguments)...)>(dlsym(driver, name));
      TORCH_CHECK(function, "the CUDA driver has no ", name);
      const int status = function(arguments...);
      TORCH_CHECK(status == 0, name, " failed with CUDA driver error ", status);
    };
    constexpr int MULTIPROCESSORS = 16, CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76; // CUdevice_attribute
    int handle = 0;
    call("cuInit", 0u);
    call("cuDeviceGet", &handle, index);
    call("cuDeviceGetName", &out->name[0], static_cast<int>(sizeof out->name) - 1, handle);
    call("cuDeviceTotalMem_v2", &out->memory, handle);
    call("cuDeviceGetAttribute", &out->capability_major, CAPABILITY_MAJOR, handle);
    call("cuDeviceGetAttribute", &out->capability_minor, CAPABILITY_MINOR, handle);
    call("cuDeviceGetAttribute", &out->multiprocessors, MULTIPROCESSORS, handle);
#endif
  });
}

// ---- memory of a CUDA device, in bytes ----

struct torchlean_cuda_memory {
  int64_t allocated;
  int64_t allocated_peak;
  int64_t reserved;
  int64_t reserved_peak;
  uint64_t driver_free;
  uint64_t driver_total;
};

int32_t torchlean_cuda_memory_stats(int64_t device, torchlean_cuda_memory* out) {
  return guarded([=] {
    const c10::DeviceIndex index = checked(device);
    const auto stats = allocator()->getDeviceStats(index);
    const auto [free, total] = allocator()->getMemoryInfo(index);
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    *out = {
        stats.allocated_bytes[all].current,
        stats.allocated_bytes[all].peak,
        stats.reserved_bytes[all].current,
        stats.reserved_bytes[all].peak,
        free,
        total};
  });
}

int32_t torchlean_cuda_reset_peak(int64_t device) {
  return guarded([=] {
    const c10::DeviceIndex index = checked(device);
    allocator()->resetPeakStats(index);
  });
}

int32_t torchlean_cuda_empty_cache() {
  return guarded([] {
    checked(0);
    allocator()->emptyCache();
  });
}

} // extern "C"

namespace torchlean {

// The beginning of c10::cuda::CUDACachingAllocator::CUDAAllocator (libtorch 2.11), whose header needs the CUDA toolkit.
// Never made, only called through: an order of virtual functions is all that it stands for. Not in an anonymous
// namespace, where a compiler that sees no object made concludes that there is none and drops the calls.
struct CudaAllocator : c10::DeviceAllocator {
  virtual void* raw_alloc(size_t bytes) = 0;
  virtual void* raw_alloc_with_stream(size_t bytes, void* stream) = 0;
  virtual void raw_delete(void* pointer) = 0;
  virtual void init(int device_count) = 0;
  virtual double getMemoryFraction(c10::DeviceIndex device) = 0;
  virtual void setMemoryFraction(double fraction, c10::DeviceIndex device) = 0;
};

} // namespace torchlean

namespace {

using torchlean::CudaAllocator;

CudaAllocator* cuda_allocator() {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11
  return static_cast<CudaAllocator*>(allocator());
#else
  TORCH_CHECK(false, "the memory fraction is known for libtorch 2.11 only, this is ", TORCH_VERSION);
#endif
}

} // namespace

extern "C" {

int32_t torchlean_cuda_memory_fraction(int64_t device, double* out) {
  return guarded([=] {
    const c10::DeviceIndex index = checked(device);
    *out = cuda_allocator()->getMemoryFraction(index);
  });
}

int32_t torchlean_cuda_set_memory_fraction(int64_t device, double fraction) {
  return guarded([=] {
    const c10::DeviceIndex index = checked(device);
    TORCH_CHECK(fraction > 0 && fraction <= 1, "a memory fraction lies in (0, 1], not at ", fraction);
    cuda_allocator()->setMemoryFraction(fraction, index);
  });
}

} // extern "C"
