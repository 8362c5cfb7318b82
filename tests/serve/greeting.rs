//! What a server says that had to make its own certificate: how to try it. `tests/pasted_commands` tries that.

use super::certificates::Site;
use super::eventually;
use super::server::{Server, serve_in};

/// The text on standard output: a CA, and how to post a sample.
async fn greeting(server: &Server) -> String {
    eventually("the greeting is whole", async || server.stdout().contains("/mutate --data '")).await;
    server.stdout()
}

#[tokio::test]
async fn without_options_it_listens_on_loopback_by_the_first_policy_and_says_how_to_try_it() {
    let folder = tempfile::tempdir().unwrap();
    match Server::try_spawn(&mut serve_in(folder.path())).await {
        Ok(server) => {
            assert_eq!(server.address.to_string(), "127.0.0.1:8443");
            assert_eq!(server.admin.to_string(), "127.0.0.1:8080");
            let listening = server.logged("listening", 1).await.remove(0);
            assert!(listening["policies"].as_str().unwrap().starts_with("aws-efa@"), "{listening}");
            let text = greeting(&server).await;
            assert!(text.contains("-----BEGIN CERTIFICATE-----"), "{text}");
            assert!(text.contains(" https://127.0.0.1:8443/mutate "), "{text}");
            assert!(!text.contains("PRIVATE KEY"), "{text}");
        }
        // The ports are what they are; another program may have them.
        Err(stderr) => assert!(stderr.contains("another program listens there"), "{stderr}"),
    }
}

#[tokio::test]
async fn with_a_certificate_of_the_operator_it_says_nothing() {
    let site = Site::new();
    let server = site.serve_aws(&[]).await;
    assert_eq!(server.stdout(), "");
}
