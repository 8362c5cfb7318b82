//! The commands that post a sample review to a server without a configured certificate.

use crate::server::Server;
use fabric_engine::admission::sample_review;

use crate::cli::output::Output;

/// Prints the CA and the commands.
pub(super) fn print(server: &Server, ca: &str) -> anyhow::Result<()> {
    let policies = server.policies();
    let Some(policy) = policies.policies().first() else { return Ok(()) };
    let address = server.address()?;
    let host = if address.ip().is_unspecified() { "localhost".to_owned() } else { address.ip().to_string() };
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let port = address.port();
    let review = sample_review(policy).to_string().replace('\'', r"'\''");
    let text = format!(
        "# The CA of this server, created for this run:\n\
         cat > fabric-injector-ca.crt <<'END'\n{ca}END\n\
         # A review of a sample pod, as an API server posts it:\n\
         curl --silent --cacert fabric-injector-ca.crt --header 'Content-Type: application/json' https://{host}:{port}/mutate --data '{review}'\n"
    );
    let mut output = Output::standard();
    output.data(text.as_bytes())?;
    output.flush()
}
