package import ApusModel

/// The header fields of one request after the other, for sessions of a client.
///
/// What all requests share is put in once with ``start(authority:authorization:)``; each request adds its own from
/// ``begin(path:)`` on, over those of the one before. Values are copied into memory that is kept.
package final class HTTP2RequestHead {
  let block = HeaderBlock()
  private var sharedCount = 0
  private var sharedBytes = 0
  private static let pathPlace = 2

  package init() {}

  /// Puts `POST`, `https` and these in place of all that was there. An empty `authorization` is left out: a
  /// certificate speaks.
  package func start(authority: Span<UInt8>, authorization: Span<UInt8>) {
    block.removeAll()
    block.add(.method, text: "POST")
    block.add(.scheme, text: "https")
    // Fields with a colon come first (RFC 9113, section 8.3): this one keeps the place for each request's own.
    block.add(.path, text: "/", indexed: false)
    block.add(.authority, value: authority)
    if !authorization.isEmpty { block.add(.authorization, value: authorization) }
    sharedCount = block.count
    sharedBytes = block.used
  }

  /// Forgets what the last request added, and takes the path of the next.
  package func begin(path: Span<UInt8>) {
    block.removeAll(toCount: sharedCount, bytes: sharedBytes)
    block.setValue(path, at: Self.pathPlace)
  }

  /// Adds a field to the request. What identifies one notification stays out of the compressor's table.
  package func add(_ name: HeaderName, value: Span<UInt8>) {
    block.add(name, value: value, indexed: name.isIndexed)
  }

  /// Adds a field whose value is one of few.
  package func add(_ name: HeaderName, _ text: StaticString) {
    block.add(name, text: text, indexed: name.isIndexed)
  }
}

extension HeaderName {
  /// Whether a request's field may enter the compressor's table. nghttp2 itself never puts `authorization` there, as
  /// one of Apple's two pages on the matter asks ("Sending notification requests to APNs").
  var isIndexed: Bool {
    switch self {
    case .path, .apnsID, .apnsCollapseID, .apnsRequestID: false
    default: true
    }
  }
}
