# KVREF_CUDA: finds nvcc, its static runtime and the architectures to build for.
# --with-cuda[=DIR] must succeed, --without-cuda never looks, the default takes what is there.
# Sets NVCC, NVCC_ARCH, NVCC_HOST, CUDA_LIBS, CUDA_SUMMARY and the conditional WITH_CUDA.

# The architectures of a list that the toolkit can build for; an empty answer if one was asked for
# by name and is unknown. The last one also as PTX, for devices that come later.
AC_DEFUN([KVREF_CUDA_ARCH], [
  cuda_known=" `$NVCC --list-gpu-arch 2>/dev/null | sed 's/compute_//' | tr '\n' ' '`"
  cuda_arch= cuda_unknown=
  AS_CASE([$with_cuda_arch],
    [default], [cuda_wanted="70 75 80 90"],
    [cuda_wanted=`AS_ECHO(["$with_cuda_arch"]) | tr ',' ' ' | sed 's/sm_//g'`])
  for a in $cuda_wanted; do
    AS_CASE([$cuda_known], [*" $a "*], [cuda_arch="$cuda_arch $a"], [cuda_unknown="$cuda_unknown $a"])
  done
  AS_IF([test "x$with_cuda_arch" != xdefault && test "x$cuda_unknown" != x],
    [AC_MSG_ERROR([--with-cuda-arch:$cuda_unknown not among those of $NVCC:$cuda_known])])
  NVCC_ARCH= cuda_last=
  for a in $cuda_arch; do
    NVCC_ARCH="$NVCC_ARCH -gencode arch=compute_$a,code=sm_$a" cuda_last=$a
  done
  NVCC_ARCH="$NVCC_ARCH -gencode arch=compute_$cuda_last,code=compute_$cuda_last"
])

AC_DEFUN([KVREF_CUDA_LIBRARY], [
  echo > conftest.cu
  cuda_top=`$NVCC --dryrun -c conftest.cu 2>&1 | sed -n 's/^.*TOP=//p' | head -n 1`
  rm -f conftest.cu
  CUDA_LIBS=
  for d in "$cuda_top"/lib64 "$cuda_top"/targets/*/lib "$cuda_top"/lib; do
    AS_IF([test "x$CUDA_LIBS" = x && test -f "$d/libcudart_static.a"],
      [CUDA_LIBS="$d/libcudart_static.a -ldl -lrt -lpthread"])
  done
])

# A kernel compiles, with the C++ compiler of this build as host compiler or else nvcc's own.
AC_DEFUN([KVREF_CUDA_TRY], [
  AS_ECHO(["__global__ void k(float *x) { x[[threadIdx.x]] += 1; } void f(float *x) { k<<<1, 32>>>(x); }"]) > conftest.cu
  cuda_host=
  for word in $CXX; do
    AS_CASE([$word], [ccache | */ccache | -*], [], [test "x$cuda_host" != x || cuda_host=$word])
  done
  cuda_works=no
  for NVCC_HOST in "-ccbin $cuda_host" ""; do
    AS_IF([test $cuda_works = no &&
        $NVCC -std=c++17 $NVCC_HOST $NVCC_ARCH -c -o conftest.o conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
      [cuda_works=yes; break])
  done
  rm -f conftest.cu conftest.o
])

AC_DEFUN([KVREF_CUDA], [
AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
    [build the CUDA backend, with the toolkit in DIR (default: if nvcc is found)])],
  [], [with_cuda=auto])
AC_ARG_WITH([cuda-arch],
  [AS_HELP_STRING([--with-cuda-arch=LIST],
    [compute capabilities, as in "80,90" (default: those of 70, 75, 80, 90 that nvcc knows)])],
  [], [with_cuda_arch=default])
AC_ARG_VAR([NVCC], [CUDA compiler])
AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags, added last])

cuda_why=
AS_CASE([$with_cuda],
  [no], [cuda_why="not asked for"],
  [auto | yes], [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH:/usr/local/cuda/bin])],
  [AC_PATH_PROG([NVCC], [nvcc], [], [$with_cuda/bin])])
AS_IF([test "x$cuda_why" = x && test "x$NVCC" = x], [cuda_why="no nvcc"])
AS_IF([test "x$cuda_why" = x], [
  KVREF_CUDA_ARCH
  KVREF_CUDA_LIBRARY
  AC_MSG_CHECKING([whether $NVCC works])
  AS_IF([test "x$cuda_arch" = x], [cuda_why="nvcc knows none of:$cuda_unknown"],
    [test "x$CUDA_LIBS" = x], [cuda_why="no libcudart_static.a under $cuda_top"],
    [KVREF_CUDA_TRY
     test $cuda_works = yes || cuda_why="nvcc cannot compile a kernel, see config.log"])
  AC_MSG_RESULT([${cuda_why:-yes}])
])
AS_IF([test "x$cuda_why" = x],
  [AC_DEFINE([WITH_CUDA], [1], [Define to 1 if the CUDA backend is built])
   CUDA_SUMMARY="$NVCC, for$cuda_arch"],
  [CUDA_SUMMARY="none ($cuda_why)" CUDA_LIBS=
   AS_CASE([$with_cuda], [auto | no], [], [AC_MSG_ERROR([--with-cuda: $cuda_why])])])
AC_SUBST([NVCC_ARCH])
AC_SUBST([NVCC_HOST])
AC_SUBST([CUDA_LIBS])
AM_CONDITIONAL([WITH_CUDA], [test "x$cuda_why" = x])
])
