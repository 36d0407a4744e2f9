# The FP16 decoder, and the CPU execution layer. A kernel file gpu/x.cu has a wrapper gpu/cpu_x.cc;
# add both to the lists, one per line. None of it needs the C++ library, so C programs link it as
# they are.
gpu_kernels = \
	%D%/attention.cu \
	%D%/attention_books.cu \
	%D%/attention_full.cu \
	%D%/attention_merge.cu \
	%D%/attention_mix.cu \
	%D%/attention_score.cu \
	%D%/backend.cu \
	%D%/block.cu \
	%D%/calls.cu \
	%D%/elementwise.cu \
	%D%/embed.cu \
	%D%/frame.cu \
	%D%/layout.cu \
	%D%/linear.cu \
	%D%/memory.cu \
	%D%/passes.cu \
	%D%/rmsnorm.cu \
	%D%/rope.cu \
	%D%/sample.cu \
	%D%/taps.cu \
	%D%/weights.cu
gpu_wrappers = \
	%D%/cpu_attention.cc \
	%D%/cpu_attention_books.cc \
	%D%/cpu_attention_full.cc \
	%D%/cpu_attention_merge.cc \
	%D%/cpu_attention_mix.cc \
	%D%/cpu_attention_score.cc \
	%D%/cpu_backend.cc \
	%D%/cpu_block.cc \
	%D%/cpu_calls.cc \
	%D%/cpu_elementwise.cc \
	%D%/cpu_embed.cc \
	%D%/cpu_frame.cc \
	%D%/cpu_layout.cc \
	%D%/cpu_linear.cc \
	%D%/cpu_memory.cc \
	%D%/cpu_passes.cc \
	%D%/cpu_rmsnorm.cc \
	%D%/cpu_rope.cc \
	%D%/cpu_sample.cc \
	%D%/cpu_taps.cc \
	%D%/cpu_weights.cc
noinst_HEADERS += \
	%D%/attention.h \
	%D%/decoder.h \
	%D%/dot.h \
	%D%/gpu.h \
	%D%/inside.h \
	%D%/runtime.h \
	%D%/cudacpu/api.h \
	%D%/cudacpu/control.h \
	%D%/cudacpu/cudacpu.h \
	%D%/cudacpu/engine.h \
	%D%/cudacpu/fiber.h \
	%D%/cudacpu/shadow.h \
	%D%/cudacpu/types.h

EXTRA_DIST += $(gpu_kernels) %D%/README.md

# The engine is never instrumented for races; with it the kernels make two libraries, of which a
# program links one.
noinst_LIBRARIES += libcudacpu_engine.a libcudacpu_check.a
libcudacpu_engine_a_SOURCES = \
	%D%/cudacpu/block.cc \
	%D%/cudacpu/copy.cc \
	%D%/cudacpu/device.cc \
	%D%/cudacpu/fiber.cc \
	%D%/cudacpu/forbid.cc \
	%D%/cudacpu/graph.cc \
	%D%/cudacpu/launch.cc \
	%D%/cudacpu/memory.cc \
	%D%/cudacpu/order.cc \
	%D%/cudacpu/report.cc \
	%D%/cudacpu/shared.cc \
	%D%/cudacpu/stream.cc \
	%D%/cudacpu/warp.cc
libcudacpu_check_a_SOURCES = \
	%D%/cudacpu/check.cc \
	%D%/cudacpu/shadow.cc

noinst_LIBRARIES += libkvref_cudacpu.a
libkvref_cudacpu_a_SOURCES = $(gpu_wrappers)
libkvref_cudacpu_a_LIBADD = $(libcudacpu_engine_a_OBJECTS)

# The race build: compiled with sanitizers, linked without; %D%/cudacpu/check.cc says why.
# Its own optimisation level, since a higher one removes accesses.
noinst_LIBRARIES += libkvref_cudacpu_race.a
libkvref_cudacpu_race_a_SOURCES = $(gpu_wrappers)
libkvref_cudacpu_race_a_LIBADD = $(libcudacpu_engine_a_OBJECTS) $(libcudacpu_check_a_OBJECTS)
libkvref_cudacpu_race_a_CXXFLAGS = $(RACE_CXXFLAGS)
$(libkvref_cudacpu_race_a_OBJECTS): CXXFLAGS = $(RACE_OPTIMISE)

# The same kernels for devices. -fmad=false: a fused step stands in the source or nowhere.
if WITH_CUDA
noinst_LIBRARIES += libkvref_cuda.a
cuda_library = libkvref_cuda.a
libkvref_cuda_a_SOURCES = $(gpu_kernels)

NVCC_BASE_FLAGS = -std=c++17 -O3 -fmad=false $(NVCC_HOST) $(NVCC_ARCH) $(NVCC_WARN_FLAGS) \
	-Xcompiler -ffp-contract=off,-fno-math-errno,-fno-strict-aliasing,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics
SUFFIXES = .cu
AM_V_NVCC = $(am__v_NVCC_@AM_V@)
am__v_NVCC_ = $(am__v_NVCC_@AM_DEFAULT_V@)
am__v_NVCC_0 = @echo '  NVCC    ' $@;
am__v_NVCC_1 =
.cu.o:
	$(AM_V_NVCC)$(MKDIR_P) $(@D) && $(NVCC) $(NVCC_BASE_FLAGS) -I$(top_srcdir)/include -I$(top_srcdir) \
	  $(NVCCFLAGS) -MD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $<
CLEANFILES += $(libkvref_cuda_a_OBJECTS:.o=.d)
-include $(libkvref_cuda_a_OBJECTS:.o=.d)
endif
