import CCurl
import Glibc

/// One HTTP request with libcurl, which checks the host's name, and knows proxies and time limits. Blocks until the
/// response.
package struct WebCall: Sendable {
  package enum Endpoint: Sendable, Hashable {
    /// A server on a UNIX socket.
    case unix(path: String)
    /// TLS. The certificate must name the host, and be issued by an authority in the file (PEM) or, without a file, by
    /// one of the system's authorities.
    case tls(host: String, port: UInt16, authorityFile: String?)
    /// An absolute URL with the scheme http or https, instead of segments and query.
    case url(String, authorityFile: String?)
  }

  package var endpoint: Endpoint
  package var method: String
  /// Path segments, without percent encoding.
  package var segments: [String]
  package var query: [WebField] = []
  package var headers: [WebField] = []
  /// A JSON body; nil for none.
  package var body: [UInt8]?
  /// Seconds to wait for the complete response.
  package var timeoutSeconds = 60

  package init(_ endpoint: Endpoint, _ method: String, _ segments: [String]) {
    self.endpoint = endpoint
    self.method = method
    self.segments = segments
  }

  package struct Answer: Sendable {
    package var status: Int
    package var body: [UInt8]
  }

  /// Why there is no response, as libcurl describes it.
  package struct Fault: Error, Sendable, Hashable, CustomStringConvertible {
    package var description: String
  }

  /// Maximum bytes of a response.
  private static let largestAnswer = 16 * 1024 * 1024

  /// Why libcurl cannot be used; nil if it is ready.
  private static let fault = unsafe ccurl_load().map { reason in
    Fault(description: unsafe "cannot use libcurl: \(String(cString: reason))")
  }

  package func perform() throws(Fault) -> Answer {
    if let fault = Self.fault { throw fault }
    guard let handle = unsafe ccurl_new() else { throw Fault(description: "out of memory") }
    defer { unsafe ccurl_free(handle) }
    let fields = unsafe headerList()
    defer { unsafe ccurl_list_free(fields) }
    let message = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    unsafe message.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
    defer { unsafe message.deallocate() }
    unsafe ccurl_set_error_buffer(handle, message)
    guard unsafe set(handle, fields) else { throw Fault(description: "libcurl is too old") }
    var sink = Sink(limit: Self.largestAnswer)
    let code = unsafe withUnsafeMutablePointer(to: &sink) { sink in
      unsafe ccurl_set_writer(handle, receive, sink)
      return unsafe ccurl_perform(handle)
    }
    guard code == CURLE_OK else {
      // libcurl speaks of the host in the URL, which says nothing about a socket.
      if case .unix(let path) = endpoint, code == CURLE_COULDNT_CONNECT {
        throw Fault(description: "nothing answers at \(path)")
      }
      let text = unsafe String(cString: message)
      let known = unsafe String(cString: ccurl_explain(code))
      throw Fault(description: text.isEmpty ? known : text)
    }
    return Answer(status: unsafe ccurl_status(handle), body: sink.bytes)
  }

  // MARK: Options

  private func set(
    _ handle: UnsafeMutableRawPointer, _ fields: UnsafeMutablePointer<curl_slist>?
  ) -> Bool {
    var codes: [CURLcode] = []
    func text(_ option: CURLoption, _ value: String) {
      codes.append(unsafe ccurl_set_text(handle, option, value))
    }
    func number(_ option: CURLoption, _ value: Int) {
      codes.append(unsafe ccurl_set_number(handle, option, value))
    }
    text(CURLOPT_URL, url)
    text(CURLOPT_CUSTOMREQUEST, method)
    codes.append(unsafe ccurl_set_list(handle, CURLOPT_HTTPHEADER, fields))
    number(CURLOPT_NOSIGNAL, 1)
    number(CURLOPT_FOLLOWLOCATION, 0)
    number(CURLOPT_CONNECTTIMEOUT, 10)
    number(CURLOPT_TIMEOUT, timeoutSeconds)
    switch endpoint {
    case .unix(let path):
      text(CURLOPT_PROTOCOLS_STR, "http")
      text(CURLOPT_UNIX_SOCKET_PATH, path)
    case .tls(_, _, let authorityFile), .url(_, let authorityFile):
      text(CURLOPT_PROTOCOLS_STR, isPlainURL ? "http" : "https")
      number(CURLOPT_SSL_VERIFYPEER, 1)
      number(CURLOPT_SSL_VERIFYHOST, 2)
      number(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
      if let authorityFile { text(CURLOPT_CAINFO, authorityFile) }
    }
    if let body {
      number(CURLOPT_POSTFIELDSIZE, body.count)
      let copied = unsafe body.withUnsafeBytes { bytes in
        unsafe ccurl_set_text(
          handle, CURLOPT_COPYPOSTFIELDS, bytes.baseAddress?.assumingMemoryBound(to: CChar.self))
      }
      codes.append(copied)
    }
    return codes.allSatisfy { $0 == CURLE_OK }
  }

  private func headerList() -> UnsafeMutablePointer<curl_slist>? {
    var lines = headers.map { "\($0.name): \($0.value)" }
    lines.append("accept: application/json")
    if body != nil { lines.append("content-type: application/json") }
    var list: UnsafeMutablePointer<curl_slist>?
    for line in lines { unsafe list = ccurl_list_append(list, line) }
    return unsafe list
  }

  private var isPlainURL: Bool {
    if case .url(let url, _) = endpoint { url.hasPrefix("http://") } else { false }
  }

  private var url: String {
    let base =
      switch endpoint {
      case .url(let url, _): url
      case .unix: "http://localhost"
      case .tls(let host, let port, _):
        "https://\(host.contains(":") ? "[\(host)]" : host):\(port)"
      }
    let path = segments.map { "/" + Self.escaped($0) }.joined()
    let query = query.map { "\(Self.escaped($0.name))=\(Self.escaped($0.value))" }
    return base + path + (query.isEmpty ? "" : "?" + query.joined(separator: "&"))
  }

  /// Percent-encodes all but the unreserved characters. RFC 3986, section 2.3.
  static func escaped(_ text: String) -> String {
    let digits = Array("0123456789ABCDEF")
    return text.utf8.reduce(into: "") { escaped, byte in
      switch byte {
      case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f, 0x7e:
        escaped.unicodeScalars.append(Unicode.Scalar(byte))
      default:
        escaped += "%\(digits[Int(byte >> 4)])\(digits[Int(byte & 15)])"
      }
    }
  }
}

private struct Sink {
  var bytes: [UInt8] = []
  let limit: Int
}

/// `CURLOPT_WRITEFUNCTION`. Returning fewer bytes than given ends the request.
private func receive(
  _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int,
  _ context: UnsafeMutableRawPointer?
) -> Int {
  guard let sink = unsafe context?.assumingMemoryBound(to: Sink.self) else { return 0 }
  let total = size * count
  guard unsafe sink.pointee.bytes.count + total <= sink.pointee.limit else { return 0 }
  unsafe sink.pointee.bytes.append(
    contentsOf: UnsafeRawBufferPointer(start: bytes, count: total))
  return total
}
