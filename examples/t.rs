use fabric_injector::{policy::*, policy_set::*, engine::*};
fn main(){
 let f=std::env::args().nth(1).unwrap(); let p=std::env::args().nth(2).unwrap();
 let t=std::time::Instant::now();
 let d=match Definition::read(&f,&std::fs::read_to_string(&f).unwrap()){Ok(d)=>d,Err(e)=>{println!("{e}");return}};
 println!("read {:?}",t.elapsed());
 let s=match PolicySet::new(vec![(d,Default::default())]){Ok(d)=>d,Err(e)=>{println!("{e}");return}};
 println!("load {:?}",t.elapsed());
 let y=std::fs::read_to_string(&p).unwrap();
 let v=fabric_injector::yaml::read_value(&y).unwrap().root.unwrap();
 let m=mutate(&s,v.clone(),&Request::default());
 for w in &m.warnings { println!("{}: {w}",w.code()); }
 match &m.outcome{ Outcome::Mutated{pod,patch,stamp}=>{println!("{stamp}"); for o in &patch.0 {println!("{o}");} println!("{}",fabric_injector::yaml::write(pod))}, o=>println!("{o:?}")}
 let t=std::time::Instant::now(); for _ in 0..1000 { std::hint::black_box(mutate(&s,v.clone(),&Request::default())); } println!("{:?} each", t.elapsed()/1000);
 let j=v.to_string(); let t=std::time::Instant::now(); for _ in 0..1000 { std::hint::black_box(serde_json::from_str::<serde_json::Value>(&j).unwrap()); } println!("parse {:?} each, {} bytes", t.elapsed()/1000, j.len());
 let t=std::time::Instant::now(); for _ in 0..1000 { std::hint::black_box(v.clone()); } println!("clone {:?} each", t.elapsed()/1000);
}
