# SPDX-License-Identifier: Apache-2.0
#
# From the checkout that this recipe is part of:
#
#   make dist
#   spack repo add packaging/spack
#   spack install --no-checksum commtap
import os

from spack.package import *

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))


class Commtap(MakefilePackage):
    """Finds out what a distributed job's MPI and NCCL communication costs, who makes the others wait, and why it hangs."""

    url = f"file://{CHECKOUT}/build/commtap-0.1.0.tar.gz"

    license("Apache-2.0")

    version("0.1.0")

    variant("sqlite", default=True, description="commtap export --format sqlite")
    variant("zstd", default=True, description="commtap pack")

    depends_on("c", type="build")
    depends_on("elfutils")
    depends_on("jansson")
    depends_on("libiberty+pic")
    depends_on("zlib-api")
    depends_on("sqlite", when="+sqlite")
    depends_on("zstd", when="+zstd")

    def install(self, spec, prefix):
        make("install", f"PREFIX={prefix}")

    def setup_run_environment(self, env):
        env.set("LIBCOMMTAP", self.prefix.lib.join("libcommtap.so"))
