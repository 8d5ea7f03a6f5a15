//! Build-script library: WGSL templates to checked SPIR-V and WGSL.
