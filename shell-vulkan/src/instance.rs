//! The Vulkan loader, the instance, and the messages of the validation layer.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ash::{ext, khr, vk};
use serinette_dispatch::ShellError;

use crate::device::driver_error;

#[cfg(windows)]
const LOADER: &[&str] = &["vulkan-1.dll"];
#[cfg(any(target_os = "macos", target_os = "ios"))]
const LOADER: &[&str] = &["libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"];
#[cfg(target_os = "android")]
const LOADER: &[&str] = &["libvulkan.so"];
#[cfg(not(any(windows, target_os = "macos", target_os = "ios", target_os = "android")))]
const LOADER: &[&str] = &["libvulkan.so.1", "libvulkan.so"];

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// More messages than this are not kept: a fault in a loop must not eat the host's memory.
const MAX_MESSAGES: usize = 1000;

/// Whether an instance was left alive for the rest of the process: the first that is dropped.
///
/// Without a living instance the loader unloads the drivers, and some cannot bear being loaded again and again:
/// NVIDIA's takes static thread-local storage each time, and after a dozen times there is none left ("no Vulkan
/// driver").
static KEPT: AtomicBool = AtomicBool::new(false);

/// Messages of the validation layer, oldest first. Clones are handles to the same log.
#[derive(Clone, Debug, Default)]
pub struct MessageLog(Arc<Mutex<Vec<String>>>);

impl MessageLog {
    /// A copy of the messages so far; at most the first 1000 are kept.
    pub fn messages(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(&self, message: String) {
        let mut messages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.len() < MAX_MESSAGES {
            messages.push(message);
        }
    }
}

/// What the validation layer is to look at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checks {
    None,
    /// The rules of the specification.
    Validation,
    /// Missing barriers too.
    Hazards,
}

/// An instance, with the library that it came from.
pub(crate) struct Instance {
    pub raw: ash::Instance,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    // Boxed so that the driver's pointer to it stays good when the instance moves.
    log: ManuallyDrop<Box<MessageLog>>,
    /// The loader: the functions of `raw` are its code.
    library: ManuallyDrop<libloading::Library>,
}

impl Instance {
    /// Opens the loader and makes an instance.
    pub fn open(loader: Option<&Path>, checks: Checks) -> Result<Self, ShellError> {
        let library = open_library(loader)?;
        // SAFETY: the symbol has had this signature since Vulkan 1.0. The pointer is used only through `entry` and
        // what it makes, none of which outlives `library` (see `drop`).
        let get_instance_proc_addr = unsafe {
            library
                .get::<vk::PFN_vkGetInstanceProcAddr>(b"vkGetInstanceProcAddr\0")
                .map(|symbol| *symbol)
                .map_err(|_| ShellError::Unavailable("the library is no Vulkan loader"))?
        };
        // SAFETY: the function comes from a Vulkan loader, whose code obeys the specification.
        let entry = unsafe { ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr }) };

        // SAFETY: no precondition.
        let version = unsafe { entry.try_enumerate_instance_version() };
        if version.map_err(|e| driver_error("vkEnumerateInstanceVersion", e, 0))?.unwrap_or(0)
            < vk::API_VERSION_1_1
        {
            return Err(ShellError::Unavailable("the Vulkan loader is older than 1.1"));
        }
        // SAFETY: no precondition.
        let offered = unsafe { entry.enumerate_instance_extension_properties(None) }
            .map_err(|e| driver_error("vkEnumerateInstanceExtensionProperties", e, 0))?;

        let mut extensions: Vec<*const c_char> = Vec::new();
        let mut layers: Vec<*const c_char> = Vec::new();
        let mut flags = vk::InstanceCreateFlags::empty();
        // Implementations on top of other APIs are listed only on request.
        if has_extension(&offered, khr::portability_enumeration::NAME) {
            extensions.push(khr::portability_enumeration::NAME.as_ptr());
            flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
        }
        let validation = checks != Checks::None;
        if validation {
            require_validation(&entry, &offered, checks)?;
            layers.push(VALIDATION_LAYER.as_ptr());
            extensions.push(ext::debug_utils::NAME.as_ptr());
        }
        if checks == Checks::Hazards {
            extensions.push(ext::validation_features::NAME.as_ptr());
        }

        let log = Box::new(MessageLog::default());
        let mut messenger_info = messenger_info(&log);
        let application =
            vk::ApplicationInfo::default().engine_name(c"serinette").api_version(vk::API_VERSION_1_3);
        let mut info = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_extension_names(&extensions)
            .enabled_layer_names(&layers)
            .flags(flags);
        if validation {
            // Covers the making and the destruction of the instance, which the messenger below does not.
            info = info.push_next(&mut messenger_info);
        }
        let hazards = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&hazards);
        if checks == Checks::Hazards {
            info = info.push_next(&mut features);
        }
        // SAFETY: the structures above are valid, their layers and extensions were offered, and `log`, which the
        // messenger refers to, outlives the instance.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|error| match error {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => ShellError::Unavailable("no Vulkan driver"),
            error => driver_error("vkCreateInstance", error, 0),
        })?;
        let mut instance =
            Self { raw, messenger: None, log: ManuallyDrop::new(log), library: ManuallyDrop::new(library) };
        if validation {
            let functions = ext::debug_utils::Instance::new(&entry, &instance.raw);
            let info = self::messenger_info(&instance.log);
            // SAFETY: the extension is enabled, and the log outlives the messenger (see `drop`).
            let messenger = unsafe { functions.create_debug_utils_messenger(&info, None) }
                .map_err(|e| driver_error("vkCreateDebugUtilsMessengerEXT", e, 0))?;
            instance.messenger = Some((functions, messenger));
        }
        Ok(instance)
    }

    /// A handle to the messages.
    pub fn messages(&self) -> MessageLog {
        MessageLog::clone(&self.log)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some((functions, messenger)) = self.messenger.take() {
            // SAFETY: made by this instance, destroyed once.
            unsafe { functions.destroy_debug_utils_messenger(messenger, None) };
        }
        if !KEPT.swap(true, Ordering::Relaxed) {
            return;
        }
        // SAFETY: whatever the instance made holds an `Arc` of it, so nothing is left; the library is still loaded.
        unsafe { self.raw.destroy_instance(None) };
        // SAFETY: each dropped once, here, when the instance that refers to them is gone.
        unsafe {
            ManuallyDrop::drop(&mut self.log);
            ManuallyDrop::drop(&mut self.library);
        }
    }
}

fn open_library(path: Option<&Path>) -> Result<libloading::Library, ShellError> {
    let names = match path {
        Some(path) => vec![path.as_os_str()],
        None => LOADER.iter().map(OsStr::new).collect(),
    };
    names
        .into_iter()
        // SAFETY: loading runs the library's initialisers; the caller vouches for a path of its own, the system
        // for the loader that it finds under the usual name.
        .find_map(|name| unsafe { libloading::Library::new(name) }.ok())
        .ok_or(ShellError::Unavailable("no Vulkan loader"))
}

fn require_validation(
    entry: &ash::Entry,
    offered: &[vk::ExtensionProperties],
    checks: Checks,
) -> Result<(), ShellError> {
    // SAFETY: no precondition.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }
        .map_err(|e| driver_error("vkEnumerateInstanceLayerProperties", e, 0))?;
    if !layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION_LAYER)) {
        return Err(ShellError::Unavailable("the Khronos validation layer is not installed"));
    }
    // SAFETY: no precondition; the layer exists.
    let of_layer = unsafe { entry.enumerate_instance_extension_properties(Some(VALIDATION_LAYER)) }
        .map_err(|e| driver_error("vkEnumerateInstanceExtensionProperties", e, 0))?;
    let has = |name| has_extension(offered, name) || has_extension(&of_layer, name);
    if !has(ext::debug_utils::NAME) {
        return Err(ShellError::Unavailable("the validation layer does not report messages"));
    }
    if checks == Checks::Hazards && !has(ext::validation_features::NAME) {
        return Err(ShellError::Unavailable("the validation layer does not look for hazards"));
    }
    Ok(())
}

/// Whether a list of extensions has one of this name.
pub(crate) fn has_extension(offered: &[vk::ExtensionProperties], name: &CStr) -> bool {
    offered.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name))
}

/// Reports of the validation layer; the loader's and drivers' chatter is of another type.
fn messenger_info(log: &MessageLog) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(
            vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
        )
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
        .pfn_user_callback(Some(on_message))
        .user_data(std::ptr::from_ref(log).cast_mut().cast())
}

/// # Safety
///
/// Called by the driver with a valid message and the log given to [`messenger_info`].
unsafe extern "system" fn on_message(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kind: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    log: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the pointer is the `MessageLog` of the instance, alive until the instance is gone; only shared
    // references to it exist.
    let log = unsafe { log.cast::<MessageLog>().as_ref() };
    // SAFETY: the specification gives a valid structure, or at worst null.
    let data = unsafe { data.as_ref() };
    if let (Some(log), Some(data)) = (log, data)
        && !data.p_message.is_null()
    {
        // SAFETY: the message is a null-terminated text, alive during the call.
        let message = unsafe { CStr::from_ptr(data.p_message) };
        log.push(message.to_string_lossy().into_owned());
    }
    vk::FALSE
}
