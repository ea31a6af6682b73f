package import ApusLog
package import ApusLoop

/// Everything that a stand-in for APNs is told when it starts.
package struct DevConfiguration: Sendable {
  /// Ports on loopback; 0 takes a free one.
  package struct Ports: Sendable, Hashable {
    package var http2: UInt16 = 2197
    package var http2Development: UInt16 = 2198
    package var courier: UInt16 = 5223
    package var courierDevelopment: UInt16 = 5224
    package var gateway: UInt16 = 2195
    package var gatewayDevelopment: UInt16 = 2295
    package var feedback: UInt16 = 2196
    package var feedbackDevelopment: UInt16 = 2296
    package var console: UInt16 = 2190

    package init() {}

    /// Free ones, for tests that run beside each other.
    package static var free: Ports {
      var ports = Ports()
      ports.http2 = 0
      ports.http2Development = 0
      ports.courier = 0
      ports.courierDevelopment = 0
      ports.gateway = 0
      ports.gatewayDevelopment = 0
      ports.feedback = 0
      ports.feedbackDevelopment = 0
      ports.console = 0
      return ports
    }
  }

  /// A file that somebody wrote, and its name for what is said of it.
  package struct Source: Sendable {
    package var path: String
    package var text: [UInt8]

    package init(path: String, text: [UInt8]) {
      self.path = path
      self.text = text
    }

    /// What is wrong with it, with its place.
    func problem(_ fault: InputFault) -> DevProblem {
      let place = fault.position(in: text).map { ", line \($0.line), column \($0.column)" } ?? ""
      return DevProblem(.invalid, "\(path)\(place): \(fault)")
    }
  }

  /// Kept for the next run; nil: a directory that goes with the stand-in.
  package var dataDirectory: String?
  /// Whether any well-formed token and topic is taken, and any key that can be read.
  package var isLenient = true
  /// Bundle ids of the apps that there are; never none.
  package var topics = ["com.example.app"]
  /// Ids of the virtual devices that there are at the start.
  package var devices = ["phone", "tablet"]
  package var ports = Ports()
  /// Pushes, and megabytes of them, that are kept at most.
  package var keep = 10_000
  package var keepMegabytes = 128
  /// A file of faults (JSON).
  package var faults: Source?
  /// Texts of apps: `Localizable.strings` files as they are.
  package var strings: [(topic: String, language: String, file: Source)] = []
  package var version = ""
  /// Where the console and the API listen; nil: on loopback, at their port.
  package var listen: SocketAddress?
  /// What those must show who ask there; nil lets everybody in, and goes with loopback alone.
  package var password: String?
  package var log = Log(minimumLevel: .warning)
  /// Of the monotonic clock, when the program began.
  package var startedMonotonicMilliseconds: Int64?

  package init() {}
}
