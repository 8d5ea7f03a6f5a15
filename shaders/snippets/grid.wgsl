// Grids wider than a device allows are folded over x, y and z; this is the number of the workgroup.
fn group_number(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.x + groups.x * (group.y + groups.y * group.z);
}
