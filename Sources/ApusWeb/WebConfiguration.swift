import Glibc

/// A certificate chain and its private key, as PEM.
package struct WebIdentity: Sendable, Equatable {
  package var certificatePEM: [UInt8]
  package var keyPEM: [UInt8]

  package init(certificatePEM: [UInt8], keyPEM: [UInt8]) {
    self.certificatePEM = certificatePEM
    self.keyPEM = keyPEM
  }
}

/// Limits of a server.
package struct WebLimits: Sendable {
  /// Maximum connections; further ones are closed.
  package var connections: UInt32 = 128
  /// Maximum connections per IP address. UNIX sockets have no such limit.
  package var connectionsPerAddress: UInt32 = 16
  /// Seconds without a byte until a connection is closed.
  package var idleSeconds: UInt32 = 15
  /// Maximum seconds from a request's first byte (or the end of the previous request) to its last.
  package var requestSeconds: Int64 = 30
  /// Maximum bytes of a request's body.
  package var bodyBytes = 65_536
  /// Maximum bytes of a request's head.
  package var headBytes = 16_384
  /// Number of threads that answer requests.
  package var threads = 2

  package init() {}
}

/// Where and how a server listens.
package struct WebServerConfiguration: Sendable {
  package enum Endpoint: Sendable, Hashable {
    /// A UNIX socket that only its owner can connect to.
    case unix(path: String)
    /// A numeric address; port 0 picks a free port.
    case tcp(host: String, port: UInt16)
    /// A TCP socket that already listens. It is duplicated; the caller keeps the original.
    case inherited(descriptor: Int32, port: UInt16)
  }

  package var endpoint: Endpoint
  /// The identity for TLS; nil for plain HTTP.
  package var identity: WebIdentity?
  package var limits = WebLimits()

  package init(endpoint: Endpoint, identity: WebIdentity? = nil) {
    self.endpoint = endpoint
    self.identity = identity
  }
}

/// Why a server does not start.
package enum WebError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Another process listens on the UNIX socket.
  case socketTaken(path: String)
  /// The path exists and is not a socket.
  case notASocket(path: String)
  case pathTooLong(path: String, limit: Int)
  case badAddress(String)
  case system(operation: String, address: String, code: Int32)
  /// libmicrohttpd is not installed, or lacks a function.
  case notLoaded(reason: String)
  /// libmicrohttpd could not start, usually because of the certificate or its key.
  case notStarted(address: String)

  /// Whether the file system cannot create a socket: it is full, read-only, or fails.
  package var isOfDisk: Bool {
    guard case .system(_, _, let code) = self else { return false }
    return [ENOSPC, EDQUOT, EROFS, EIO].contains(code)
  }

  package var description: String {
    switch self {
    case .socketTaken(let path):
      "another service listens on \(path): stop it, or use another data directory"
    case .notASocket(let path): "\(path) exists and is not a socket: remove it"
    case .pathTooLong(let path, let limit):
      "\(path) is too long for a UNIX socket (\(limit) bytes): choose a shorter path "
        + "for the data directory, or switch the socket off"
    case .badAddress(let text): "\(text) is not a numeric address"
    case .system(let operation, let address, let code):
      "cannot \(operation) \(address): \(systemText(code))"
    case .notLoaded(let reason): "cannot use libmicrohttpd: \(reason)"
    case .notStarted(let address):
      "cannot start a server on \(address): do the certificate and its key belong together?"
    }
  }
}
