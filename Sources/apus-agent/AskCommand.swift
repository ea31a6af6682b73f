import ApusAgent
import ApusCommand
import ApusLog
import ApusWire
import Glibc

/// The commands that ask the running agent.
struct AskCommand {
  let invocation: Invocation

  init(_ invocation: Invocation) { self.invocation = invocation }

  func run() throws(CommandFailure) {
    var request: KeyValuePairs<String, JSONValue?> = ["op": .string(invocation.command)]
    if invocation.command == AgentVerb.history.rawValue {
      request = [
        "op": .string(invocation.command),
        "count": .integer(Int64(invocation.value(AgentOptions.count))),
      ]
    } else if let topic = invocation.operands.first {
      request = ["op": .string(invocation.command), "topic": .string(topic)]
    }
    let answer: JSONValue
    do throws(AgentFault) {
      var connection = try ControlConnection(path: socketPath, timeoutSeconds: 30)
      answer = try connection.ask(.members(request))
    } catch {
      throw CommandFailure(error.remedy == nil ? .failed : .unavailable, error)
    }
    Terminal.standard(
      invocation.isOn(AgentOptions.json) ? answer.text + "\n" : text(answer))
  }

  /// A user other than root has an agent of the session, or else that of the system.
  private var socketPath: String {
    if let path = invocation[AgentOptions.socket] { return path }
    if let configuration = try? invocation.readConfiguration() { return configuration.socketPath }
    let own = System.defaults.socketPath
    return unsafe access(own, F_OK) == 0 ? own : "/run/apus-agent/agent.sock"
  }

  private func text(_ answer: JSONValue) -> String {
    switch AgentVerb(rawValue: invocation.command) {
    case .tokens:
      (answer["tokens"]?.array ?? []).map { entry in
        "\(entry["topic"]?.string ?? "")  \(entry["token"]?.string ?? "(not known yet)")\n"
      }.joined()
    case .history:
      (answer["notifications"]?.array ?? []).map { entry in
        let time = Log.timestamp((entry["seconds"]?.integer ?? 0) * 1000)
        return "\(time)  \(entry["id"]?.string ?? "")  \(entry["topic"]?.string ?? "")  "
          + "\(entry["outcome"]?.string ?? "")\n"
      }.joined()
    case .register: "\(answer["token"]?.string ?? "")\n"
    default:
      (answer.object?.members ?? []).filter { $0.key != "op" }.map { member in
        "  \(member.key): \(member.value.string ?? member.value.text)\n"
      }.joined()
    }
  }
}
