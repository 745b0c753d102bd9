//! What stands between clients and the server at a moment: whether it runs, and whether anything gets through. Plain state;
//! whoever carries messages looks here.

/// How it is now.
#[derive(Clone, Debug, Default)]
pub(super) struct Weather {
    /// Which life of the server this is; none while it is down.
    pub life: Option<u64>,
    /// Whether the server's process stands still.
    pub frozen: bool,
    /// The way of each client.
    pub ways: Vec<Way>,
}

/// One client's way to the server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    /// The connection that the next stream or call goes over.
    pub connection: u64,
    /// All before this one are broken.
    pub broken_before: u64,
    /// Whether the network loses everything.
    pub parted: bool,
    /// Whether the client's process stands still.
    pub suspended: bool,
}

/// Names a client's way.
pub(super) type WayId = usize;

/// What one connection of one life goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub way: WayId,
    pub number: u64,
    pub life: u64,
}

impl Weather {
    /// Whether bytes get through on this way.
    pub fn passes(&self, way: WayId) -> bool {
        let way = &self.ways[way];
        !way.parted && !way.suspended
    }

    /// Whether this connection is broken.
    pub fn is_broken(&self, connection: Connection) -> bool {
        self.life != Some(connection.life) || self.ways[connection.way].broken_before > connection.number
    }

    /// Breaks the connection that a client has.
    pub fn cut(&mut self, way: WayId) {
        let way = &mut self.ways[way];
        way.connection += 1;
        way.broken_before = way.connection;
    }
}
