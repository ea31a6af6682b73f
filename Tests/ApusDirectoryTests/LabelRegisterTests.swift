import ApusDirectory
import ApusModel
import Foundation
import Testing

@Suite("The file of names and tags")
struct LabelRegisterTests {
  private let folder: URL
  private let directory: DataDirectory

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "labels-\(UUID())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    directory = DataDirectory(path: folder.path())
  }

  private var text: String {
    get throws { try String(contentsOfFile: directory.labelFile, encoding: .utf8) }
  }

  private func append(_ text: String) throws {
    let file = try FileHandle(forWritingTo: URL(filePath: directory.labelFile))
    try file.seekToEnd()
    try file.write(contentsOf: Data(text.utf8))
    try file.close()
  }

  @Test("A change is a line, which other readers of the file see")
  func change() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let (writer, reader) = (LabelRegister(directory), LabelRegister(directory))
    try reader.refresh()
    try writer.change { _ in
      [DeviceID(0x0123_4567_89ab_cdef): try labels("kitchen", "room=north", "floor=2")]
    }
    #expect(try text == "0123456789abcdef\tkitchen\tfloor=2\troom=north\n")
    #expect(try mode(directory.labelFile) == 0o600)
    try reader.refresh()
    #expect(reader.read { $0.device(called: "kitchen")?.text } == "0123456789abcdef")
    try writer.change { _ in [DeviceID(0x0123_4567_89ab_cdef): DeviceLabels()] }
    try reader.refresh()
    #expect(reader.read { $0.device(called: "kitchen") } == nil)
    #expect(reader.read { $0.deviceCount } == 0)
  }

  @Test("A line that was cut off is not read, and the next change removes it")
  func unfinishedLine() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let register = LabelRegister(directory)
    try register.change { _ in [DeviceID(1): try labels("kitchen")] }
    try append("0000000000000002\tcell")
    let other = try LabelRegister(reading: directory)
    #expect(other.read { $0.devices } == [DeviceID(1)])
    try register.change { _ in [DeviceID(3): try labels("attic")] }
    #expect(try text == "0000000000000001\tkitchen\n0000000000000003\tattic\n")
    try other.refresh()
    #expect(other.read { $0.devices } == [DeviceID(1), DeviceID(3)])
  }

  @Test("A file that was shortened in place is read anew")
  func shortened() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let register = LabelRegister(directory)
    try register.change { _ in
      [DeviceID(1): try labels("kitchen", "floor=1"), DeviceID(2): try labels("hall")]
    }
    let file = try FileHandle(forWritingTo: URL(filePath: directory.labelFile))
    try file.truncate(atOffset: 0)
    try file.write(contentsOf: Data("0000000000000001\tattic\n".utf8))
    try file.close()
    try register.refresh()
    #expect(register.read { $0.devices } == [DeviceID(1)])
    #expect(register.read { $0.device(called: "attic") } == DeviceID(1))
  }

  @Test(
    "A malformed line counts for nothing and is reported by its number",
    arguments: [
      "0000000000000002", "2\thall", "0000000000000002\tha\u{7}ll", "",
      "0000000000000002\thall\t", "0000000000000002\thall\tfloor=",
    ])
  func malformed(line: String) throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    try Data("0000000000000001\tkitchen\n\(line)\n0000000000000003\t\tfloor=2\n".utf8)
      .write(to: URL(filePath: directory.labelFile))
    let register = try LabelRegister(reading: directory)
    #expect(register.malformedLines == [2])
    #expect(register.read { $0.devices } == [DeviceID(1), DeviceID(3)])
  }

  @Test("A file with mostly outdated lines is rewritten, and readers follow")
  func rewrite() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let register = LabelRegister(directory)
    try register.change { _ in [DeviceID(1): try labels("kitchen", "floor=1")] }
    let reader = try LabelRegister(reading: directory)
    let lines = (0..<1100).map { "0000000000000002\tn\($0)\n" }.joined()
    try append(lines)
    try register.change { _ in [DeviceID(3): try labels(nil, "floor=3")] }
    #expect(
      try text
        == "0000000000000001\tkitchen\tfloor=1\n0000000000000002\tn1099\n0000000000000003\t\tfloor=3\n"
    )
    try reader.refresh()
    #expect(reader.read { $0.devices.count } == 3)
    #expect(reader.read { $0.device(called: "n1099") } == DeviceID(2))
    #expect(reader.read { $0.device(called: "n5") } == nil)
  }

  @Test("A name has one holder, unless the holder is retired")
  func holders() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let register = LabelRegister(directory)
    var edit = LabelEdit()
    edit.name = .set(try name("kitchen"))
    edit.added = [try tag("floor=2")]
    _ = try register.edit(DeviceID(1), edit) { _ in false }
    #expect(throws: DirectoryProblem.self) {
      _ = try register.edit(DeviceID(2), edit) { _ in false }
    }
    _ = try register.edit(DeviceID(2), edit) { $0 == DeviceID(1) }
    #expect(register.read { $0.device(called: "kitchen") } == DeviceID(2))
    #expect(register.read { $0.labels(of: DeviceID(1)) } == (try labels(nil, "floor=2")))
  }

  @Test("An edit changes what it says and keeps the rest")
  func edits() throws {
    defer { try? FileManager.default.removeItem(at: folder) }
    let register = LabelRegister(directory)
    try register.change { _ in [DeviceID(1): try labels("kitchen", "floor=2", "room=north")] }
    var edit = LabelEdit()
    edit.added = [try tag("floor=3")]
    edit.removedKeys = ["room"]
    #expect(
      try register.edit(DeviceID(1), edit) { _ in false } == (try labels("kitchen", "floor=3")))
    edit = LabelEdit()
    edit.name = .remove
    #expect(try register.edit(DeviceID(1), edit) { _ in false } == (try labels(nil, "floor=3")))
    edit.added = try (0..<16).map { try tag("k\($0)") }
    #expect(throws: DirectoryProblem.self) {
      _ = try register.edit(DeviceID(1), edit) { _ in false }
    }
  }
}
