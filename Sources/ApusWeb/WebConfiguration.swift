import Glibc

/// A certificate with what leads on from it to a root, and its private key; PEM.
package struct WebIdentity: Sendable, Equatable {
  package var certificatePEM: [UInt8]
  package var keyPEM: [UInt8]

  package init(certificatePEM: [UInt8], keyPEM: [UInt8]) {
    self.certificatePEM = certificatePEM
    self.keyPEM = keyPEM
  }
}

/// How much one may ask of a server, all of it at once.
package struct WebLimits: Sendable {
  /// Connections at once; further ones are closed.
  package var connections: UInt32 = 128
  /// Those of one IP address. A UNIX socket has none.
  package var connectionsPerAddress: UInt32 = 16
  /// Seconds without a byte.
  package var idleSeconds: UInt32 = 15
  /// Seconds from a request's first byte (or the end of the one before) to its last.
  package var requestSeconds: Int64 = 30
  /// Bytes of a request's body.
  package var bodyBytes = 65_536
  /// Bytes for a request's head.
  package var headBytes = 16_384
  /// Requests that are answered at once.
  package var threads = 2

  package init() {}
}

/// Where a server listens, and how.
package struct WebServerConfiguration: Sendable {
  package enum Place: Sendable, Hashable {
    /// A UNIX socket that its owner alone can connect to.
    case unix(path: String)
    /// A numeric address; port 0 takes a free one.
    case tcp(host: String, port: UInt16)
    /// A TCP socket that listens already. It is duplicated, and stays the caller's.
    case inherited(descriptor: Int32, port: UInt16)
  }

  package var place: Place
  /// With it, TLS is spoken.
  package var identity: WebIdentity?
  package var limits = WebLimits()

  package init(place: Place, identity: WebIdentity? = nil) {
    self.place = place
    self.identity = identity
  }
}

/// Why a server does not start.
package enum WebError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Somebody answers on that UNIX socket.
  case socketTaken(path: String)
  /// There is something at that path that is no socket.
  case notASocket(path: String)
  case pathTooLong(path: String, limit: Int)
  case badAddress(String)
  case system(operation: String, place: String, code: Int32)
  /// libmicrohttpd started nothing: the certificate and its key, most often.
  case notStarted(place: String)

  /// Whether the file system takes no socket: it is full, can only be read, or fails.
  package var isOfDisk: Bool {
    guard case .system(_, _, let code) = self else { return false }
    return [ENOSPC, EDQUOT, EROFS, EIO].contains(code)
  }

  package var description: String {
    switch self {
    case .socketTaken(let path):
      "another service answers on \(path): stop that one, or give this one another data directory"
    case .notASocket(let path): "\(path) is in the way: it is not a socket; remove it"
    case .pathTooLong(let path, let limit):
      "\(path) is too long for a UNIX socket, which takes \(limit) bytes: choose a shorter path "
        + "for the data directory, or switch the socket off"
    case .badAddress(let text): "\(text) is not an address in numbers"
    case .system(let operation, let place, let code):
      "cannot \(operation) \(place): \(systemText(code))"
    case .notStarted(let place):
      "no server could be started on \(place): are the certificate and its key of one kind?"
    }
  }
}
