/// A method and a path of an API.
package struct WebRoute: Sendable {
  package let method: String
  /// Path segments; a segment in braces matches any text but none.
  package let pattern: [String]

  package init(_ method: String, _ path: String) {
    self.method = method
    pattern = path.split(separator: "/").map(String.init)
  }

  /// As written in an OpenAPI description.
  package var path: String { "/" + pattern.joined(separator: "/") }

  fileprivate func matches(_ segments: [String]) -> Bool {
    segments.count == pattern.count
      && zip(segments, pattern).allSatisfy { Self.isVariable($1) ? !$0.isEmpty : $0 == $1 }
  }

  fileprivate func parameters(of segments: [String]) -> [String] {
    zip(segments, pattern).filter { Self.isVariable($1) }.map(\.0)
  }

  private static func isVariable(_ part: String) -> Bool { part.first == "{" }
}

/// Finds the operation of a request.
package struct WebRoutes<Operation: Sendable>: Sendable {
  package enum Match: Sendable {
    /// `parameters`: the values of the variable segments, in order.
    case operation(Operation, parameters: [String])
    case unknownPath
    /// The path has other methods: the value of the `Allow` field.
    case otherMethods(String)
  }

  private let routes: [(operation: Operation, route: WebRoute)]

  package init(_ operations: some Sequence<Operation>, _ route: (Operation) -> WebRoute) {
    routes = operations.map { ($0, route($0)) }
  }

  package func match(method: String, segments: [String]) -> Match {
    let candidates = routes.filter { $0.route.matches(segments) }
    guard !candidates.isEmpty else { return .unknownPath }
    // RFC 9110, section 9.3.2: HEAD is GET without the content.
    let wanted = method == "HEAD" ? "GET" : method
    guard let found = candidates.first(where: { $0.route.method == wanted }) else {
      var methods = candidates.map(\.route.method)
      if methods.contains("GET") { methods.append("HEAD") }
      return .otherMethods(methods.joined(separator: ", "))
    }
    return .operation(found.operation, parameters: found.route.parameters(of: segments))
  }
}
