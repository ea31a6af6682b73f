import ApusModel
import Testing

@testable import ApusCommand

@Suite("The actions of apus device")
struct DeviceActionTests {
  private func read(_ line: String) throws -> (action: DeviceAction, operands: [String]) {
    let parser = CommandLineParser(program: .apus, environment: [:]) { _ in nil }
    guard
      case .run(let invocation) = try parser.parse(
        ["device"] + line.split(separator: " ").map(String.init))
    else { throw CommandFailure(.failed, "no invocation") }
    return try DeviceAction.read(invocation)
  }

  @Test(
    "The first operand is the action, the rest is what it is about",
    arguments: [
      ("", DeviceAction.list, []), ("list kit --tag floor", .list, ["kit"]),
      ("show kitchen", .show, ["kitchen"]),
      ("add --name kitchen --tag floor=2 --rsa 2048 --days 9", .add, []),
      ("set kitchen --no-name --untag floor", .set, ["kitchen"]),
      ("retire a b", .retire, ["a", "b"]), ("pending", .pending, []),
      ("approve 1f2e3d4c --certificate f", .approve, ["1f2e3d4c"]),
      ("reject 1f2e3d4c 5f2e3d4c", .reject, ["1f2e3d4c", "5f2e3d4c"]),
    ])
  func actions(line: String, action: DeviceAction, operands: [String]) throws {
    let found = try read(line)
    #expect(found.action == action && found.operands == operands)
  }

  @Test(
    "A wrong command line says what to use instead",
    arguments: [
      ("kitchen", "unknown action \"kitchen\"", "list, show, add"),
      ("show", "show needs a DEVICE", "apus device show DEVICE"),
      ("show a b", "show takes one of these: a b", "apus device show DEVICE"),
      ("add kitchen", "add takes none of these: kitchen", "apus device add"),
      ("--name kitchen", "--name has no effect with list", "apus device add`, `set`, `approve"),
      ("show a --tag b", "--tag has no effect with show", "list`, `add`"),
      ("retire a --rsa 2048", "--rsa has no effect with retire", "apus device add`"),
      ("add --untag a", "--untag has no effect with add", "apus device set`"),
    ])
  func mistakes(line: String, problem: String, remedy: String) throws {
    let failure = #expect(throws: CommandFailure.self) { try read(line) }
    #expect(failure?.code == .usage && failure?.problem == problem)
    #expect(failure?.remedy?.contains(remedy) == true, "\(failure?.remedy ?? "")")
  }

  @Test(
    "Names and tags are checked",
    arguments: ["--name 0123456789abcdef", "--tag a=b=c", "--tag =b", "--untag a=b"])
  func values(option: String) {
    #expect(throws: CommandFailure.self) { try read("set kitchen \(option)") }
  }
}
