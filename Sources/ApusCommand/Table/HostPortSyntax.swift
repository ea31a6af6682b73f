import ApusModel

extension ValueSyntax where Value == HostPort {
  static var hostPort: ValueSyntax {
    ValueSyntax("HOST:PORT") { text throws(ValueProblem) in
      guard let address = HostPort(text), address.port > 0 else {
        throw ValueProblem(
          "is not a host and a port such as localhost:2197 or [2001:db8::1]:2197")
      }
      return address
    }
  }
}
