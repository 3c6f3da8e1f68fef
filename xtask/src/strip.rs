//! Removes DWARF from a BPF object, and nothing else.
//!
//! The kernel and aya read BTF, which bpf-linker has made from the DWARF by then; DWARF is nine
//! tenths of the file. Done here rather than by `llvm-objcopy`, which not every toolchain comes
//! with and GNU's can't stand in for.

use anyhow::Result;
use object::build::elf::{Builder, SectionData};
use object::elf;

/// `data`, an ELF object, without its sections `.debug_*` and what refers to them alone.
pub fn strip_debug(data: &[u8]) -> Result<Vec<u8>> {
    let mut object = Builder::read(data)?;
    for section in &mut object.sections {
        section.delete = is_debug(&section.name);
    }
    object.delete_orphans();
    add_section_names(&mut object);
    object.set_section_sizes();
    let mut stripped = Vec::new();
    object.write(&mut stripped)?;
    Ok(stripped)
}

/// LLVM keeps the names of sections and symbols in one table, the builder in two.
fn add_section_names(object: &mut Builder<'_>) {
    if object.sections.iter().any(|section| matches!(section.data, SectionData::SectionString)) {
        return;
    }
    let names = object.sections.add();
    names.name = b".shstrtab"[..].into();
    names.sh_type = elf::SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = SectionData::SectionString;
}

/// Whether a section holds DWARF, or relocations of it.
fn is_debug(name: &[u8]) -> bool {
    let name = name.strip_prefix(b".rela").or(name.strip_prefix(b".rel")).unwrap_or(name);
    name.starts_with(b".debug_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dwarf_and_its_relocations_go() {
        for name in [".debug_info", ".rel.debug_line", ".rela.debug_str"] {
            assert!(is_debug(name.as_bytes()), "{name}");
        }
        for name in [".BTF", ".BTF.ext", ".rel.BTF", "maps", ".reltracepoint", ".debugger"] {
            assert!(!is_debug(name.as_bytes()), "{name}");
        }
    }
}
