//! Running a recording: fill, encode, submit, wait, show.

use crate::errors::code;
use crate::record::{Grid, Launch, Params, Part, Timer, WgpuRecording};
use serinette_dispatch::{RunTimes, ShellError, Target};
use std::ops::Range;
use std::time::Duration;

impl WgpuRecording {
    pub(crate) fn run(
        &mut self,
        write: &mut dyn FnMut(&mut [u8]),
        read: &mut dyn FnMut(&[u8]),
        timeout: Duration,
    ) -> Result<RunTimes, ShellError> {
        self.inner.errors.alive()?;
        self.failed.map_or(Ok(()), Err)?;
        write(&mut self.host_input);
        // Staging memory that is on its way to be mapped can be neither filled nor submitted again, so a failure from
        // here on is final.
        let done = self.submit_and_wait(timeout);
        if let Err(error) = done {
            self.failed = Some(error);
            return Err(error);
        }
        self.show(read)
    }

    fn submit_and_wait(&mut self, timeout: Duration) -> Result<(), ShellError> {
        self.fill_input()?;
        let inner = &self.inner;
        let bytes = self.host_input.len() as u64 + self.output_bytes;
        let commands = self.next.take();
        let submission = inner.errors.scoped(&inner.device, "submit", bytes, || {
            let submission = inner.queue.submit([commands.unwrap_or_else(|| self.encode())]);
            if let Some(input) = &self.input {
                self.mappings.map(input, wgpu::MapMode::Write);
            }
            if let Some(output) = &self.output {
                self.mappings.map(output, wgpu::MapMode::Read);
            }
            submission
        })?;
        // wgpu's command buffers can be submitted once only. Encoding takes about as long as short kernels run, so the
        // next ones are encoded now.
        let next = inner.errors.scoped(&inner.device, "encode", 0, || self.encode());
        let done = self.mappings.wait(inner, submission, timeout);
        self.next = next.ok();
        done
    }

    fn fill_input(&self) -> Result<(), ShellError> {
        let Some(input) = &self.input else { return Ok(()) };
        let bytes = self.host_input.len();
        match input.get_mapped_range_mut(..) {
            Ok(mut view) => view.slice(..bytes).copy_from_slice(&self.host_input),
            Err(e) => {
                self.inner.errors.note(format!("get_mapped_range_mut: {e}"));
                return Err(ShellError::Driver { call: "get_mapped_range_mut", code: code::MAP });
            }
        }
        input.unmap();
        Ok(())
    }

    fn show(&self, read: &mut dyn FnMut(&[u8])) -> Result<RunTimes, ShellError> {
        let mut times = RunTimes::default();
        let Some(output) = &self.output else {
            read(&[]);
            return Ok(times);
        };
        self.inner.mapped(output, output.size(), |bytes| {
            if let (Some(timer), Some(tick)) = (&self.timer, self.inner.tick_ns) {
                times.device = timer.elapsed(bytes, tick);
            }
            read(bytes.get(..self.output_bytes as usize).unwrap_or_default());
        })?;
        Ok(times)
    }

    fn target(&self, target: Target) -> &wgpu::Buffer {
        match target {
            Target::Arena => &self.arena,
            Target::Control => &self.control,
        }
    }

    /// Encodes all commands.
    pub(crate) fn encode(&self) -> wgpu::CommandBuffer {
        let mut encoder =
            self.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("run") });
        let last = self.launches.len();
        for part in &self.parts {
            match *part {
                Part::Write { from, to, offset, bytes } => {
                    if let Some(input) = &self.input {
                        encoder.copy_buffer_to_buffer(input, from, self.target(to), offset, bytes);
                    }
                }
                Part::Clear { buffer, offset, bytes } => {
                    encoder.clear_buffer(self.target(buffer), offset, Some(bytes));
                }
                Part::Read { from, offset, bytes, to } => {
                    if let Some(output) = &self.output {
                        encoder.copy_buffer_to_buffer(self.target(from), offset, output, to, bytes);
                    }
                }
                Part::Pass(ref range) => {
                    let timer = self.timer.as_ref();
                    let timestamp_writes = timer.and_then(|t| t.writes(range.start == 0, range.end == last));
                    let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
                    self.pass(&mut encoder.begin_compute_pass(&descriptor), range);
                }
            }
        }
        if let (Some(timer), Some(output)) = (&self.timer, &self.output) {
            encoder.resolve_query_set(&timer.queries, 0..2, &timer.resolved, 0);
            encoder.copy_buffer_to_buffer(&timer.resolved, 0, output, timer.at, timer.resolved.size());
        }
        encoder.finish()
    }

    fn pass(&self, pass: &mut wgpu::ComputePass<'_>, range: &Range<usize>) {
        let (mut pipeline, mut group) = (None, None);
        // All indices were made together with what they index.
        for Launch { pipeline: p, group: g, params, grid } in &self.launches[range.clone()] {
            if pipeline.replace(*p) != Some(*p) {
                pass.set_pipeline(&self.pipelines[*p as usize]);
            }
            match params {
                Params::Immediates(range) => {
                    if group.replace((*g, 0)) != Some((*g, 0)) {
                        pass.set_bind_group(0, &self.groups[*g as usize], &[]);
                    }
                    if !range.is_empty() {
                        pass.set_immediates(0, &self.immediates[range.clone()]);
                    }
                }
                Params::Uniform(offset) => {
                    if group.replace((*g, *offset)) != Some((*g, *offset)) {
                        pass.set_bind_group(0, &self.groups[*g as usize], &[*offset]);
                    }
                }
            }
            match (*grid, &self.indirect) {
                (Grid::Direct([x, y, z]), _) => pass.dispatch_workgroups(x, y, z),
                (Grid::Indirect(offset), Some(indirect)) => {
                    pass.dispatch_workgroups_indirect(indirect, offset)
                }
                // Refused when recording.
                (Grid::Indirect(_), None) => {}
            }
        }
    }
}

impl Timer {
    fn writes(&self, first: bool, last: bool) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        (first || last).then(|| wgpu::ComputePassTimestampWrites {
            query_set: &self.queries,
            beginning_of_pass_write_index: first.then_some(0),
            end_of_pass_write_index: last.then_some(1),
        })
    }

    fn elapsed(&self, output: &[u8], tick_ns: f32) -> Option<Duration> {
        let times = output.get(self.at as usize..)?;
        let (start, times) = times.split_first_chunk::<8>()?;
        let (end, _) = times.split_first_chunk::<8>()?;
        let ticks = u64::from_le_bytes(*end).checked_sub(u64::from_le_bytes(*start))?;
        Some(Duration::from_nanos((ticks as f64 * f64::from(tick_ns)) as u64))
    }
}
