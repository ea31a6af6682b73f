import CMicroHTTPD
import Glibc
import Synchronization

/// A request on its way in, and its answer on its way out. Confined to the daemon's thread but for `answer`.
@safe final class WebExchange: @unchecked Sendable {
  let connection: Connection
  private(set) var request: WebRequest
  /// The body is larger than it may be.
  private(set) var isTooLarge = false
  /// Bytes of the body that came, kept or not.
  private var received = 0
  var isAnswering = false
  /// Set by whoever answers, and read once the connection was resumed.
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

  /// Takes a part of the body; false when so much came that the connection has to end.
  func take(_ bytes: UnsafeRawBufferPointer, limit: Int) -> Bool {
    received += bytes.count
    if received > limit {
      isTooLarge = true
      request.body = []
      // What a client sends before it reads the answer is thrown away, within reason.
      return received <= 16 * limit
    }
    if answer == nil { unsafe request.body.append(contentsOf: bytes) }
    return true
  }
}

/// Reads what libmicrohttpd knows of a request.
enum WebHead {
  enum Fault: Error {
    /// What is wrong with it, for its sender.
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
      throw .bad("the path is not well-formed: a percent sign stands for one byte, in UTF-8")
    }
    let query = unsafe fields(handle, .GET_ARGUMENT_KIND)
    var arguments: [WebField] = []
    for field in query {
      guard let name = WebRequest.decoded(field.name), let value = WebRequest.decoded(field.value)
      else { throw .bad("the query is not well-formed: a percent sign stands for one byte") }
      arguments.append(WebField(name, value))
    }
    let request = WebRequest(
      method: method, segments: segments, query: arguments, headers: headers, peer: peer)
    try checkLength(request, bodyLimit)
    return request
  }

  /// RFC 9112, section 6.3: a message whose length can be read in two ways is nobody's friend.
  private static func checkLength(_ request: WebRequest, _ limit: Int) throws(Fault) {
    let lengths = request.values("content-length")
    let codings = request.values("transfer-encoding")
    guard lengths.count + codings.count <= 1 else {
      throw .bad("the request says more than once how long its body is")
    }
    if let coding = codings.first, coding.lowercased() != "chunked" {
      throw .bad("no transfer coding but chunked is understood")
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
      _ = unsafe MHD_get_connection_values_n(
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
