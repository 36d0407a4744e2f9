# The CPU execution layer, and the kernels compiled for it. A kernel file gpu/x.cu has a wrapper
# gpu/cpu_x.cc; add both to the lists, one per line. None of it needs the C++ library, so C programs
# link it as they are.
gpu_kernels = \
	%D%/elementwise.cu \
	%D%/embed.cu \
	%D%/linear.cu \
	%D%/rmsnorm.cu \
	%D%/rope.cu \
	%D%/sample.cu
gpu_wrappers = \
	%D%/cpu_elementwise.cc \
	%D%/cpu_embed.cc \
	%D%/cpu_linear.cc \
	%D%/cpu_rmsnorm.cc \
	%D%/cpu_rope.cc \
	%D%/cpu_sample.cc
noinst_HEADERS += \
	%D%/dot.h \
	%D%/gpu.h \
	%D%/runtime.h \
	%D%/cudacpu/api.h \
	%D%/cudacpu/control.h \
	%D%/cudacpu/cudacpu.h \
	%D%/cudacpu/engine.h \
	%D%/cudacpu/fiber.h \
	%D%/cudacpu/types.h

EXTRA_DIST += $(gpu_kernels) %D%/README.md

noinst_LIBRARIES += libkvref_cudacpu.a
libkvref_cudacpu_a_SOURCES = $(gpu_wrappers) \
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
