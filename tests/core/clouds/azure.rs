//! Faults of the policy for Azure, and what is easy to get wrong on InfiniBand there.

use std::collections::BTreeSet;

use crate::helpers::{Served, on, served, worker};

const TOPOLOGY: &str = "fabric-injector.io/nccl-topology";
const H100: &str = "Standard_ND96isr_H100_v5";

/// One file, modelled on the A100 sizes, went to every VM size, also to those where Azure uses another or none.
#[test]
fn azure_topology_is_that_of_the_vm_family() {
    let topology = |size: &str| -> Option<Topology> {
        Topology::read(&served("azure-infiniband", &[], on(size, worker(8))))
    };
    let a100 = topology("Standard_ND96asr_v4").unwrap();
    assert_eq!(topology("Standard_ND96amsr_A100_v4").unwrap(), a100);
    let h100 = topology("Standard_ND96isr_H100_v5").unwrap();
    assert_eq!(topology("Standard_ND96isr_H200_v5").unwrap(), h100);
    let v100 = topology("Standard_ND40rs_v2").unwrap();
    for other in ["Standard_ND96isr_MI300X_v5", "Standard_ND128isr_GB300_v6", "Standard_NC96ads_A100_v4"] {
        assert_eq!(topology(other), None, "{other}");
    }
    assert_eq!(a100.gpus, ids("0003 0004 0001 0002 000d 000e 000b 000c"));
    assert_eq!(a100.adapters, ids("0103 0104 0101 0102 0107 0108 0105 0106"));
    assert_eq!(h100.gpus, ids("0001 0002 0003 0008 0009 000a 000b 000c"));
    assert_eq!(h100.adapters, ids("0101 0102 0103 0104 0105 0106 0107 0108"));
    assert_eq!(v100.gpus, ids("0001 0002 0003 0004 0005 0006 0007 0008"));
    assert_eq!(v100.adapters, ids("0101"));
    let shape = |topology: &Topology| (topology.affinities.len(), topology.switches, topology.speed.clone());
    assert_eq!(shape(&a100), (4, 4, "16 GT/s".to_owned()));
    assert_eq!(shape(&h100), (2, 8, "32.0 GT/s PCIe".to_owned()));
    assert_eq!(shape(&v100), (2, 0, "16 GT/s".to_owned()));
}

/// The file had 8 processors and 16 GPUs, of which a VM has 8, and one and the same mask for every processor.
#[test]
fn azure_topology_names_each_device_and_processor_once() {
    for size in ["Standard_ND40rs_v2", "Standard_ND96asr_v4", H100] {
        let topology = Topology::read(&served("azure-infiniband", &[], on(size, worker(8)))).unwrap();
        let distinct = |values: &[String]| values.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(&topology.affinities), topology.affinities.len(), "{size}");
        assert_eq!(distinct(&topology.gpus), 8, "{size}");
        assert_eq!(topology.gpus.len(), 8, "{size}");
        assert_eq!(distinct(&topology.adapters), topology.adapters.len(), "{size}");
    }
}

/// What NCCL reads of a topology file, in the order of the file.
#[derive(Debug, PartialEq)]
struct Topology {
    affinities: Vec<String>,
    switches: usize,
    gpus: Vec<String>,
    adapters: Vec<String>,
    speed: String,
}

impl Topology {
    /// Reads the text as NCCL's small reader does, which takes no prolog, no tab, and each element on one line.
    fn read(served: &Served) -> Option<Self> {
        let text = served.annotation(TOPOLOGY)?;
        assert!(!text.contains("<?") && !text.contains('\t'));
        let elements: Vec<&str> = text.split('<').skip(1).map(str::trim_end).collect();
        for element in &elements {
            assert!(
                element.ends_with('>') && !element.contains(['\n', '\r']) && !element.contains("  "),
                "{element}"
            );
        }
        let starting = |start: &str| -> Vec<&str> {
            elements.iter().copied().filter(|element| element.starts_with(start)).collect()
        };
        let attribute = |element: &str, name: &str| {
            let (_, rest) = element.split_once(&format!(" {name}=\"")).unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        let devices = starting("pci ");
        assert_eq!(devices.iter().filter(|device| !device.ends_with("/>")).count(), starting("/pci>").len());
        assert_eq!(starting("cpu ").len(), starting("/cpu>").len());
        let mut speeds: Vec<String> = devices.iter().map(|device| attribute(device, "link_speed")).collect();
        speeds.dedup();
        let of_class = |class: &str| -> Vec<String> {
            let found = devices.iter().filter(|device| attribute(device, "class") == class);
            found.map(|device| attribute(device, "busid")).collect()
        };
        Some(Self {
            affinities: starting("cpu ").iter().map(|cpu| attribute(cpu, "affinity")).collect(),
            switches: of_class("0x060400").len(),
            gpus: of_class("0x030200"),
            adapters: of_class("0x020700"),
            speed: speeds.join(" and "),
        })
    }
}

/// Bus ids from their domains.
fn ids(domains: &str) -> Vec<String> {
    domains.split(' ').map(|domain| format!("{domain}:00:00.0")).collect()
}
