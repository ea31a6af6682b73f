import CMicroHTTPD
import Glibc
import Synchronization

/// A request and its response. Confined to the daemon's thread, except for `answer`.
@safe final class WebExchange: @unchecked Sendable {
  let connection: Connection
  private(set) var request: WebRequest
  /// Whether the body exceeds the limit.
  private(set) var isTooLarge = false
  /// Bytes received of the body, kept or not.
  private var received = 0
  var isAnswering = false
  /// Set by the answering thread, and read once the connection was resumed.
  private let answerBox = Mutex<WebResponse?>(nil)
  var stream: WebStream?

  init(_ connection: Connection, _ request: WebRequest) {
    self.connection = connection
    self.request = request
  }

  var answer: WebResponse? {
    get { answerBox.withLock { $0 } }
    set { answerBox.withLock { $0 = newValue } }
  }

  /// Appends a part of the body. Returns false if the body is so large that the connection must end.
  func take(_ bytes: UnsafeRawBufferPointer, limit: Int) -> Bool {
    received += bytes.count
    if received > limit {
      isTooLarge = true
      request.body = []
      // Up to a limit, an oversized body is read and discarded, so that the client gets to read the response.
      return received <= 16 * limit
    }
    if answer == nil { unsafe request.body.append(contentsOf: bytes) }
    return true
  }
}

/// Reads a request's head from libmicrohttpd.
enum WebHead {
  enum Fault: Error {
    /// The request is malformed; the text is for the client.
    case bad(String)
    case tooLarge
  }

  static func read(
    _ handle: OpaquePointer, method: String, path: String, peer: WebPeer, bodyLimit: Int
  ) throws(Fault) -> WebRequest {
    let headers = unsafe fields(handle, .HEADER_KIND).map {
      WebField($0.name.lowercased(), $0.value)
    }
    guard let segments = WebRequest.segments(ofPath: path) else {
      throw .bad("the path is malformed: percent signs must encode bytes of UTF-8")
    }
    let query = unsafe fields(handle, .GET_ARGUMENT_KIND)
    var arguments: [WebField] = []
    for field in query {
      guard let name = WebRequest.decoded(field.name), let value = WebRequest.decoded(field.value)
      else { throw .bad("the query is malformed: percent signs must encode bytes") }
      arguments.append(WebField(name, value))
    }
    let request = WebRequest(
      method: method, segments: segments, query: arguments, headers: headers, peer: peer)
    try checkLength(request, bodyLimit)
    return request
  }

  /// Rejects requests with an ambiguous length, which allow request smuggling. RFC 9112, section 6.3.
  private static func checkLength(_ request: WebRequest, _ limit: Int) throws(Fault) {
    let lengths = request.values("content-length")
    let codings = request.values("transfer-encoding")
    guard lengths.count + codings.count <= 1 else {
      throw .bad("the request gives the length of its body more than once")
    }
    if let coding = codings.first, coding.lowercased() != "chunked" {
      throw .bad("the only supported transfer coding is chunked")
    }
    guard let length = lengths.first else { return }
    guard !length.isEmpty, length.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else {
      throw .bad("content-length is not a number")
    }
    guard let number = Int(length), number <= limit else { throw .tooLarge }
  }

  private static func fields(_ handle: OpaquePointer, _ kind: MHD_ValueKind) -> [WebField] {
    var fields: [WebField] = []
    unsafe withUnsafeMutablePointer(to: &fields) { pointer in
      unsafe cmhd_visit_values(
        handle, kind,
        { context, _, key, keySize, value, valueSize in
          let fields = unsafe context?.assumingMemoryBound(to: [WebField].self)
          unsafe fields?.pointee.append(
            WebField(WebHead.text(key, keySize), WebHead.text(value, valueSize)))
          return .YES
        }, pointer)
    }
    return fields
  }

  private static func text(_ bytes: UnsafePointer<CChar>?, _ count: Int) -> String {
    guard let bytes = unsafe bytes else { return "" }
    let buffer = unsafe UnsafeRawBufferPointer(start: bytes, count: count)
    return unsafe String(decoding: buffer, as: UTF8.self)
  }
}
