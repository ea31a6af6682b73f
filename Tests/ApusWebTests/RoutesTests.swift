import ApusWeb
import Testing

@Suite("Finding the operation of a request")
struct RoutesTests {
  private static let table = ["list": ("GET", "/v1/keys"), "add": ("POST", "/v1/keys")]
    .merging(["key": ("GET", "/v1/keys/{id}"), "remove": ("DELETE", "/v1/keys/{id}/use")]) { $1 }
  private let routes = WebRoutes(Self.table.keys) { name in
    let (method, path) = Self.table[name] ?? ("", "")
    return WebRoute(method, path)
  }

  private func match(_ method: String, _ path: String) -> String {
    let segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
    switch routes.match(method: method, segments: segments.map(String.init)) {
    case .operation(let name, let parameters): return ([name] + parameters).joined(separator: " ")
    case .unknownPath: return "unknown"
    case .otherMethods(let allowed):
      return allowed.split(separator: ", ").sorted().joined(separator: "+")
    }
  }

  @Test(
    "Method and path choose the operation; segments in braces match any text",
    arguments: [
      ("GET", "/v1/keys", "list"), ("POST", "/v1/keys", "add"),
      ("GET", "/v1/keys/A", "key A"), ("DELETE", "/v1/keys/A/use", "remove A"),
      // RFC 9110, section 9.3.2: HEAD is GET without the content.
      ("HEAD", "/v1/keys/A", "key A"),
      ("GET", "/v1/keys/", "unknown"), ("GET", "/v1", "unknown"), ("GET", "/V1/keys", "unknown"),
      ("GET", "/v1/keys/A/use/B", "unknown"),
      // RFC 9110, section 15.5.6: the methods that the path has.
      ("PUT", "/v1/keys", "GET+HEAD+POST"), ("GET", "/v1/keys/A/use", "DELETE"),
      ("get", "/v1/keys/A", "GET+HEAD"),
    ])
  func matches(method: String, path: String, found: String) {
    #expect(match(method, path) == found)
  }
}
