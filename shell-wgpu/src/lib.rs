//! wgpu shell: runs dispatches on Vulkan, Metal, DX12 and WebGPU.
