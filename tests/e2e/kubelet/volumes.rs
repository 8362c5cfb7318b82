//! Volumes of a pod as files: those of a ConfigMap or a Secret, fields of the pod, and what is projected for a service
//! account.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::container::field;
use crate::api::Api;

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// The volumes of a container.
pub(super) struct Volumes {
    mounts: Vec<Mount>,
}

struct Mount {
    volume: Value,
    /// Where it is mounted.
    target: PathBuf,
    /// The file of the volume that is mounted alone. It stays as it is when the container starts.
    sub_path: Option<String>,
    files: Option<Files>,
    versions: u64,
    /// A token is asked for once: it lasts for longer than any test.
    token: Option<String>,
}

impl Volumes {
    /// The volumes that a container mounts below its root.
    pub(super) fn new(pod: &Value, container: &Value, root: &Path) -> Self {
        let volumes = pod["spec"]["volumes"].as_array();
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        let mounts = mounts.map(|mount| {
            let volume = volumes.unwrap().iter().find(|volume| volume["name"] == mount["name"]).unwrap();
            let target = root.join(mount["mountPath"].as_str().unwrap().trim_start_matches('/'));
            let sub_path = mount["subPath"].as_str().map(str::to_owned);
            let folder = if sub_path.is_some() { target.parent().unwrap() } else { &target };
            fs::create_dir_all(folder).unwrap();
            Mount { volume: volume.clone(), target, sub_path, files: None, versions: 0, token: None }
        });
        Self { mounts: mounts.collect() }
    }

    /// Brings the files up to date; what is missing, if something is that the pod cannot do without.
    pub(super) async fn update(&mut self, api: &Api, pod: &Value) -> Result<(), String> {
        for mount in &mut self.mounts {
            if mount.sub_path.is_some() && mount.files.is_some() {
                continue;
            }
            let files = mount.fetch(api, pod).await?;
            if mount.files.as_ref() != Some(&files) {
                mount.write(&files)?;
                mount.files = Some(files);
            }
        }
        Ok(())
    }
}

impl Mount {
    async fn fetch(&mut self, api: &Api, pod: &Value) -> Result<Files, String> {
        let volume = self.volume.clone();
        if let Some(source) = volume.get("configMap") {
            object(api, pod, "configmaps", source["name"].as_str(), source).await
        } else if let Some(source) = volume.get("secret") {
            object(api, pod, "secrets", source["secretName"].as_str(), source).await
        } else if let Some(sources) = volume["projected"]["sources"].as_array() {
            let mut files = Files::new();
            for source in sources {
                files.extend(self.project(api, pod, source).await?);
            }
            Ok(files)
        } else if let Some(items) = volume["downwardAPI"]["items"].as_array() {
            Ok(fields(pod, items))
        } else {
            // Neither the nodes nor the pods that mount these have files in them.
            let empty = ["emptyDir", "hostPath"].iter().any(|kind| volume.get(kind).is_some());
            assert!(empty, "this kubelet does not know this volume: {volume}");
            Ok(Files::new())
        }
    }

    async fn project(&mut self, api: &Api, pod: &Value, source: &Value) -> Result<Files, String> {
        if let Some(token) = source.get("serviceAccountToken") {
            if self.token.is_none() {
                self.token = Some(request_token(api, pod, token).await?);
            }
            let path = token["path"].as_str().unwrap().to_owned();
            return Ok(Files::from([(path, self.token.clone().unwrap().into_bytes())]));
        }
        if let Some(items) = source["downwardAPI"]["items"].as_array() {
            return Ok(fields(pod, items));
        }
        let config_map = source.get("configMap").unwrap_or_else(|| panic!("not known here: {source}"));
        object(api, pod, "configmaps", config_map["name"].as_str(), config_map).await
    }

    /// Writes the one file that is mounted, or all of them.
    fn write(&mut self, files: &Files) -> Result<(), String> {
        let Some(name) = &self.sub_path else {
            self.replace(files);
            return Ok(());
        };
        let bytes = files.get(name).ok_or_else(|| format!("no `{name}` in {}", self.volume))?;
        fs::write(&self.target, bytes).unwrap();
        Ok(())
    }

    /// Replaces all files at once, the way a kubelet does: `..data` is a link to the folder with the newest.
    fn replace(&mut self, files: &Files) {
        self.versions += 1;
        let version = format!("..version_{}", self.versions);
        let data = self.target.join(&version);
        fs::create_dir_all(&data).unwrap();
        for (name, bytes) in files {
            fs::write(data.join(name), bytes).unwrap();
            let link = self.target.join(name);
            if !link.is_symlink() {
                symlink(Path::new("..data").join(name), link).unwrap();
            }
        }
        let (new, current) = (self.target.join("..data_tmp"), self.target.join("..data"));
        let old = fs::read_link(&current).ok();
        symlink(&version, &new).unwrap();
        fs::rename(new, current).unwrap();
        for name in self.files.iter().flat_map(Files::keys).filter(|name| !files.contains_key(*name)) {
            fs::remove_file(self.target.join(name)).unwrap();
        }
        if let Some(old) = old {
            fs::remove_dir_all(self.target.join(old)).unwrap();
        }
    }
}

/// What a downward API volume has of a pod.
fn fields(pod: &Value, items: &[Value]) -> Files {
    let text = |item: &Value| field(pod, item["fieldRef"]["fieldPath"].as_str().unwrap()).into_bytes();
    items.iter().map(|item| (item["path"].as_str().unwrap().to_owned(), text(item))).collect()
}

/// The entries of a ConfigMap or Secret, those that are named if some are.
async fn object(
    api: &Api,
    pod: &Value,
    collection: &str,
    name: Option<&str>,
    source: &Value,
) -> Result<Files, String> {
    let (namespace, name) = (pod["metadata"]["namespace"].as_str().unwrap(), name.unwrap());
    let path = format!("/api/v1/namespaces/{namespace}/{collection}/{name}");
    let reply = api.try_send(hyper::Method::GET, &path, "application/json", None).await;
    let reply = reply.map_err(|error| error.to_string())?;
    if reply.status == 404 && source["optional"] == true {
        return Ok(Files::new());
    }
    if reply.status != 200 {
        return Err(reply.message().to_owned());
    }
    let data = reply.body["data"].as_object().into_iter().flatten();
    let files: Files = data
        .map(|(key, value)| {
            let text = value.as_str().unwrap();
            let secret = collection == "secrets";
            (key.clone(), if secret { BASE64_STANDARD.decode(text).unwrap() } else { text.into() })
        })
        .collect();
    let Some(items) = source["items"].as_array() else { return Ok(files) };
    let named = |item: &Value| {
        let key = item["key"].as_str().unwrap();
        let bytes = files.get(key).ok_or_else(|| format!("`{name}` has no `{key}`"))?;
        Ok((item["path"].as_str().unwrap().to_owned(), bytes.clone()))
    };
    items.iter().map(named).collect()
}

/// A token of the service account of a pod, for as long as the pod is there.
async fn request_token(api: &Api, pod: &Value, source: &Value) -> Result<String, String> {
    let (metadata, account) = (&pod["metadata"], pod["spec"]["serviceAccountName"].as_str().unwrap());
    let namespace = metadata["namespace"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]});
    let audiences: Vec<&Value> = source.get("audience").into_iter().collect();
    let spec = json!({
        "audiences": audiences, "expirationSeconds": source["expirationSeconds"], "boundObjectRef": pod,
    });
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let reply = api.try_send(hyper::Method::POST, &path, "application/json", Some(&request)).await;
    let reply = reply.map_err(|error| error.to_string())?;
    reply.body["status"]["token"].as_str().map(str::to_owned).ok_or_else(|| reply.message().to_owned())
}
