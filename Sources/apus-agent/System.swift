import ApusAgent
import ApusCommand
import Glibc

/// The environment and the places of this process.
enum System {
  static let environment: [String: String] = {
    var variables: [String: String] = [:]
    for entry in (try? AgentFiles.bytes("/proc/self/environ"))?.split(separator: 0) ?? [] {
      guard let equals = entry.firstIndex(of: UInt8(ascii: "=")) else { continue }
      variables[String(decoding: entry[..<equals], as: UTF8.self)] =
        String(decoding: entry[(equals + 1)...], as: UTF8.self)
    }
    return variables
  }()

  static func variable(_ name: String) -> String? {
    environment[name].flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Whether this is the agent of the system, which can act for other users.
  static var isPrivileged: Bool {
    geteuid() == 0 || AgentFiles.mayChangeUser
  }

  static var configurationFile: String {
    if isPrivileged { return "/etc/apus-agent/agent.conf" }
    let folder = variable("XDG_CONFIG_HOME") ?? "\(variable("HOME") ?? "")/.config"
    return "\(folder)/apus-agent/agent.conf"
  }

  static var defaults: AgentConfiguration.Defaults {
    let home = variable("HOME") ?? ""
    let state =
      isPrivileged
      ? "/var/lib/apus-agent"
      : "\(variable("XDG_STATE_HOME") ?? "\(home)/.local/state")/apus-agent"
    let runtime =
      isPrivileged ? "/run/apus-agent" : "\(variable("XDG_RUNTIME_DIR") ?? state)/apus-agent"
    return AgentConfiguration.Defaults(
      stateDirectory: state, socketPath: "\(runtime)/agent.sock", name: hostName,
      isPrivileged: isPrivileged)
  }

  private static var hostName: String {
    var name = [CChar](repeating: 0, count: Int(HOST_NAME_MAX) + 1)
    guard unsafe gethostname(&name, name.count) == 0 else { return "machine" }
    let text = String(
      decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return text.isEmpty ? "machine" : text
  }
}

extension CommandFailure {
  init(_ code: ExitCode, _ fault: AgentFault) {
    self.init(code, fault.problem, remedy: fault.remedy)
  }
}

extension Invocation {
  var configurationPath: String { self[AgentOptions.file] ?? System.configurationFile }

  /// The configuration from its file.
  func readConfiguration() throws(CommandFailure) -> AgentConfiguration {
    let path = configurationPath
    do throws(AgentFault) {
      guard let text = try AgentFiles.text(path) else {
        throw AgentFault(
          "\(path) does not exist",
          remedy: "Write it after the example in /usr/share/doc/apus-agent/examples/agent.conf.")
      }
      return try AgentConfiguration(path: path, text: text, defaults: System.defaults)
    } catch {
      throw CommandFailure(.configuration, error)
    }
  }
}
