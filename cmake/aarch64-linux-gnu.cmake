# Compiles for 64-bit Arm on another processor, with Debian's g++-aarch64-linux-gnu and libraries of arm64 (multiarch);
# qemu-user runs what comes of it. The preset arm64 uses it, and scripts/test_arm.sh makes a system that has all of that.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
