#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds mpiP or IPM for one MPI, from a copy of its sources.
#
#   peer.sh mpip|ipm openmpi|mpich SOURCES LIBRARY
set -eu
name=$1 mpi=$2 sources=$3 library=$4
log=$library.log
folder=$library.d
rm -rf "$folder"
cp -R "$sources" "$folder"
chmod -R u+w "$folder"

# Without libunwind call sites are found by glibc's backtrace(), as where it is not installed. LOGNAME is asked for by
# a script, and is not there in every container.
build_mpip() {
    ./configure CC="mpicc.$mpi" F77="mpif77.$mpi" PYTHON=python3 --disable-libunwind &&
        LOGNAME=${LOGNAME:-nobody} make shared && cp libmpiP.so ../"$1"
}

# Its configure forgets to ask whether the compiler is GCC, and libtool then cannot link. Its Fortran half is another
# library.
build_ipm() {
    ./bootstrap.sh &&
        GCC=yes MPICC="mpicc.$mpi" MPIF77="mpif77.$mpi" MPIFC="mpif90.$mpi" ./configure CFLAGS=-O2 &&
        make -C src libipm.la && cp -L src/.libs/libipm.so ../"$1"
}

if ! (cd "$folder" && "build_$name" "$(basename "$library")") > "$log" 2>&1; then
    echo "bench: $name was not built for $mpi: see $log" >&2
    exit 1
fi
rm -rf "$folder"
