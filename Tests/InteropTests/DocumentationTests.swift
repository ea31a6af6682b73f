import Foundation
import Testing

@Suite("Commands of the documentation", .serialized)
struct DocumentationTests {
  /// Fenced `sh` blocks with the comment `<!-- run: NAME -->` on the line above, by name, in the order of the file.
  ///
  /// Read from the documents themselves: a documented command that does not work is a defect.
  private static func groups(of path: String) throws -> [(name: String, blocks: [String])] {
    let text = try String(contentsOf: Programs.root.appending(path: path), encoding: .utf8)
    let lines = text.components(separatedBy: "\n")
    let (prefix, suffix) = ("<!-- run: ", " -->")
    var groups: [(name: String, blocks: [String])] = []
    for (index, line) in lines.enumerated() where line.hasPrefix(prefix) {
      guard line.hasSuffix(suffix), lines.dropFirst(index + 1).first == "```sh" else {
        throw Trouble("\(path), line \(index + 1): no ```sh block follows the marker")
      }
      let name = String(line.dropFirst(prefix.count).dropLast(suffix.count))
      let block = lines.dropFirst(index + 2).prefix { $0 != "```" }.joined(separator: "\n") + "\n"
      if let known = groups.firstIndex(where: { $0.name == name }) {
        groups[known].blocks.append(block)
      } else {
        groups.append((name, [block]))
      }
    }
    return groups
  }

  /// The blocks as one script.
  ///
  /// A reader takes some seconds from one block to the next. Here each block waits until what an earlier one started is
  /// ready: the service, the device's token, and changes of the data directory, which apply within a second.
  private static func script(_ blocks: [String]) -> String {
    var script = """
      set -e
      stop() {
        code=$?
        trap - EXIT
        kill $(jobs -p) 2>/dev/null || true
        wait || true
        exit $code
      }
      trap stop EXIT

      """
    for block in blocks {
      script += block
      if block.contains("apus serve &") {
        script += "until apus status > /dev/null 2>&1; do sleep 0.1; done\n"
      }
      if block.contains("--token-file token &") {
        script += "until [ -s token ]; do sleep 0.1; done\n"
      }
      script += "sleep 2\n"
    }
    return script
  }

  /// Runs the script with bash in a new directory and returns its output.
  private static func run(_ blocks: [String]) throws -> String {
    let scratch = try Scratch()
    defer { scratch.remove() }
    var free: Set<Int> = []
    while free.count < 4 { free.insert(Installation.freePort()) }
    let ports = Array(free)
    var text = script(blocks)
    for (port, free) in zip([2197, 5223, 2195, 2196], ports) {
      text = text.replacingOccurrences(of: "localhost:\(port)", with: "localhost:\(free)")
    }
    let path = try scratch.write(text, "script.sh")
    var environment = [
      "APUS_HTTP2_LISTEN": "127.0.0.1:\(ports[0])", "APUS_COURIER_LISTEN": "127.0.0.1:\(ports[1])",
      "APUS_GATEWAY_LISTEN": "127.0.0.1:\(ports[2])",
      "APUS_FEEDBACK_LISTEN": "127.0.0.1:\(ports[3])",
      "APUS_SEND_TO": "localhost:\(ports[0])", "APUS_LISTEN_TO": "localhost:\(ports[1])",
      "APUS_FEEDBACK_TO": "localhost:\(ports[3])",
    ]
    for kind in ["HTTP2", "COURIER", "GATEWAY", "FEEDBACK"] {
      environment["APUS_\(kind)_DEVELOPMENT_LISTEN"] = "off"
    }
    let tools = try Programs.product("apus").deletingLastPathComponent().path
    let printed = try Programs.bytes(
      URL(filePath: "/bin/sh"),
      [
        "-c",
        #"cd "$0"; PATH="$1:$PATH" timeout 240 bash "$2" 2>log || { cat log; exit 1; }"#,
        scratch.path, tools, path,
      ], environment: environment)
    return String(decoding: printed, as: UTF8.self)
  }

  @Test("The README's six examples work as they are printed", .timeLimit(.minutes(30)))
  func readme() throws {
    let groups = try Self.groups(of: "README.md")
    #expect(groups.map(\.name) == ["README"])
    let blocks = try #require(groups.first).blocks
    #expect(blocks.count == 6)
    let printed = try Self.run(blocks)
    #expect(printed.contains("KITCHEN001"))
    #expect(printed.contains("accepted  "))
    #expect(printed.contains("Tea is ready"))
    #expect(printed.contains("Hello from curl"))
  }

  @Test("The commands of Getting started work as they are printed", .timeLimit(.minutes(30)))
  func gettingStarted() throws {
    let groups = try Self.groups(of: "Documentation/getting-started.md")
    #expect(groups.map(\.name) == ["getting-started"])
    let printed = try Self.run(try #require(groups.first).blocks)
    for text in ["It rang.", "It rang again.", "You were offline."] {
      #expect(printed.contains(text), "\(text)")
    }
  }
}
