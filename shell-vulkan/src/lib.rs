//! Vulkan shell: runs dispatches through ash, the loader opened at run time.
