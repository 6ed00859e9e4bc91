//! A connection to one server, or to all servers of a cluster. It is not used again after a
//! failure: a late reply may still arrive on it.

use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterConnection, cluster_pipe};
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::{
    Client, Cmd, Connection, ConnectionAddr, ConnectionInfo, ConnectionLike, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, RedisResult, Value,
};

use crate::layout::command;
use crate::location::Location;

const CONNECTING: Duration = Duration::from_secs(5);
const ANSWERING: Duration = Duration::from_secs(10);
/// Retries of the client when a slot has moved. A call that still fails is repeated as a whole, on
/// new connections.
const RETRIES: u32 = 3;

/// A connection.
pub enum Link {
    One(Box<Connection>),
    Cluster(Box<ClusterConnection>),
}

impl Link {
    /// Connects to the first server that answers, and to all others if it belongs to a cluster.
    pub fn open(location: &Location, password: Option<&str>) -> RedisResult<Link> {
        let mut last: Option<RedisError> = None;
        for (host, port) in &location.servers {
            match Link::by(location, (host, *port), password) {
                Ok(link) => return Ok(link),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| (redis::ErrorKind::InvalidClientConfig, "no server is named").into()))
    }

    fn by(location: &Location, server: (&str, u16), password: Option<&str>) -> RedisResult<Link> {
        let info = info(location, server, password)?;
        let mut one = Client::open(info)?.get_connection_with_timeout(CONNECTING)?;
        one.set_read_timeout(Some(ANSWERING))?;
        one.set_write_timeout(Some(ANSWERING))?;
        let about: String = command(&["INFO", "cluster"]).query(&mut one)?;
        if !about.contains("cluster_enabled:1") {
            return Ok(Link::One(Box::new(one)));
        }
        let infos: RedisResult<Vec<ConnectionInfo>> =
            location.servers.iter().map(|(host, port)| self::info(location, (host, *port), password)).collect();
        let builder =
            ClusterClient::builder(infos?).retries(RETRIES).connection_timeout(CONNECTING).response_timeout(ANSWERING);
        Ok(Link::Cluster(Box::new(builder.build()?.get_connection()?)))
    }

    /// Sends commands that each concern keys of one slot, batched by server. Returns the answers
    /// in order.
    pub fn ask(&mut self, commands: Vec<Cmd>) -> RedisResult<Vec<Value>> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        match self {
            Link::One(one) => {
                let mut pipe = redis::pipe();
                for command in commands {
                    pipe.add_command(command);
                }
                pipe.query(one)
            }
            Link::Cluster(cluster) => {
                let mut pipe = cluster_pipe();
                for command in commands {
                    pipe.add_command(command);
                }
                pipe.query(cluster)
            }
        }
    }

    /// Sends a command to each master, on the connections of [`Link::ask`].
    pub fn ask_each(&mut self, command: &Cmd) -> RedisResult<Vec<Value>> {
        match self {
            Link::One(one) => Ok(vec![one.req_command(command)?]),
            Link::Cluster(cluster) => {
                let each = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                match cluster.route_command(command, each)? {
                    Value::Map(of_master) => Ok(of_master.into_iter().map(|(_, answer)| answer).collect()),
                    other => Ok(vec![other]),
                }
            }
        }
    }
}

fn info(location: &Location, (host, port): (&str, u16), password: Option<&str>) -> RedisResult<ConnectionInfo> {
    let address = match location.is_secure {
        true => ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure: false, tls_params: None },
        false => ConnectionAddr::Tcp(host.to_owned(), port),
    };
    let mut settings = RedisConnectionInfo::default();
    if let Some(user) = &location.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = password {
        settings = settings.set_password(password);
    }
    Ok(address.into_connection_info()?.set_redis_settings(settings))
}
