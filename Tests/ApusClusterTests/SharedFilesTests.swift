import ApusDirectory
import ApusModel
import ApusStore
import Foundation
import PostgresServer
import Testing

@testable import ApusEnrolment

@Suite("Files that nodes share")
struct SharedFilesTests {
  private struct Failure: Error {}

  private func permissions(_ path: String) throws -> Int? {
    try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
  }

  @Test("A node that joins gets everything, with the same permissions")
  func joining() throws {
    let nodes = try Nodes()
    #expect(try nodes.areEqual())
    let names = try Set(nodes.shared(nodes.b).keys)
    for name in [
      "directory.conf", "sealing.keys", "authority/devices.key", "authority/service.crt",
      "server/server.key",
    ] {
      #expect(names.contains(name))
      #expect(
        try permissions("\(nodes.a.path)/\(name)") == permissions("\(nodes.b.path)/\(name)"))
    }
    #expect(try permissions("\(nodes.b.path)/cluster/member") == 0o600)
    // It can serve: trust data is complete.
    _ = try nodes.b.trust(generation: 1, allowsES512: false)
  }

  @Test("A change on one node is one of all, whichever node it was made on")
  func changes() throws {
    let nodes = try Nodes()
    for (index, directory) in [nodes.a, nodes.b, nodes.b, nodes.a].enumerated() {
      try directory.retire(DeviceID(UInt64(index + 1)), nowSeconds: 1)
    }
    try nodes.follow(nodes.b)
    #expect(try nodes.areEqual())
    let retired = try nodes.b.records().sections.filter { $0.kind == "retired" }
    #expect(retired.count == 4)
  }

  @Test("Commands on both nodes at once lose nothing")
  func concurrentChanges() async throws {
    let nodes = try Nodes()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (start, directory) in [(0, nodes.a), (100, nodes.b)] {
        group.addTask {
          for number in 1...8 {
            try directory.retire(DeviceID(UInt64(start + number)), nowSeconds: 1)
          }
        }
      }
      try await group.waitForAll()
    }
    try nodes.follow(nodes.a)
    try nodes.follow(nodes.b)
    #expect(try nodes.areEqual())
    #expect(try nodes.a.records().sections.count { $0.kind == "retired" } == 16)
  }

  @Test("Names and tags are appended on all nodes, and not written anew each time")
  func appending() throws {
    let nodes = try Nodes()
    for number in 1...5 {
      let register = LabelRegister(number.isMultiple(of: 2) ? nodes.b : nodes.a)
      try register.change { _ in
        [DeviceID(UInt64(number)): DeviceLabels(name: DeviceName("device-\(number)"))]
      }
    }
    try nodes.follow(nodes.b)
    #expect(try nodes.areEqual())
    #expect(try text(nodes.b.labelFile).split(separator: "\n").count == 5)
    let parts = "SELECT count(*) FROM apus.file WHERE path = 'devices.tsv'"
    #expect(try nodes.sql(parts) == ["5"])
    // A node that joins later reads all parts, and goes on.
    try nodes.join("c")
    #expect(try text(nodes.directory("c").labelFile) == text(nodes.a.labelFile))
    try LabelRegister(nodes.directory("c")).change { _ in
      [DeviceID(9): DeviceLabels(name: DeviceName("nine"))]
    }
    #expect(try nodes.sql(parts) == ["6"])
    try nodes.follow(nodes.a)
    #expect(try text(nodes.directory("c").labelFile) == text(nodes.a.labelFile))
  }

  @Test("A code is used once, whichever nodes the devices ask")
  func enrolmentCodes() throws {
    let nodes = try Nodes()
    let code = try nodes.a.enrolmentCodes.make(
      EnrolmentCodes.Record(name: nil, madeSeconds: 1, expiresSeconds: .max, uses: 1))
    try nodes.follow(nodes.b)
    let uses = try [nodes.b, nodes.a].map { directory in
      try directory.enrolmentCodes.take(
        code, use: 1,
        .init(key: directory.path, device: DeviceID(1), seconds: 1, certificateDER: nil))
    }
    #expect(uses == [true, false])
    #expect(try nodes.areEqual())
  }

  @Test("A file that is removed on one node goes on all")
  func removal() throws {
    let nodes = try Nodes()
    let code = try nodes.a.enrolmentCodes.make(
      EnrolmentCodes.Record(name: nil, madeSeconds: 1, expiresSeconds: .max, uses: 1))
    try nodes.follow(nodes.b)
    #expect(try nodes.b.enrolmentCodes.all().count == 1)
    #expect(try nodes.b.enrolmentCodes.withdraw(hash: EnrolmentCodes.hash(code)))
    try nodes.follow(nodes.a)
    #expect(try nodes.a.enrolmentCodes.all().isEmpty)
    #expect(try nodes.areEqual())
  }

  @Test("A change that fails leaves nothing, here and elsewhere")
  func failure() throws {
    let nodes = try Nodes()
    let before = try nodes.shared(nodes.a)
    #expect(throws: Failure.self) {
      try nodes.a.changing {
        try Files.write("half", to: nodes.a.directoryFile, isPrivate: false)
        try Files.write("new", to: "\(nodes.a.path)/keys/NEW.pub", isPrivate: false)
        Files.remove(nodes.a.sealingFile)
        throw Failure()
      }
    }
    #expect(try nodes.shared(nodes.a) == before)
    try nodes.follow(nodes.b)
    #expect(try nodes.areEqual())
    #expect(try nodes.sql("SELECT version FROM apus.directory") == ["1"])
  }

  @Test("Without the database nothing is changed, and the error says so")
  func databaseAway() throws {
    let nodes = try Nodes()
    let before = try nodes.shared(nodes.a)
    try nodes.sql("ALTER TABLE apus.directory RENAME TO away")
    let error = #expect(throws: (any Error).self) {
      try nodes.a.retire(DeviceID(1), nowSeconds: 1)
    }
    #expect("\(try #require(error))".contains("apus.directory"))
    #expect(try nodes.shared(nodes.a) == before)
    try nodes.sql("ALTER TABLE apus.away RENAME TO directory")
    try nodes.a.retire(DeviceID(1), nowSeconds: 1)
  }

  @Test("A change whose commit is not known to have happened is found out by the next")
  func doubt() throws {
    let nodes = try Nodes()
    // The commit fails after everything was written here.
    try nodes.sql(
      """
      CREATE FUNCTION refuse() RETURNS trigger AS 'BEGIN RAISE EXCEPTION ''refused''; END' LANGUAGE plpgsql;
      CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON apus.file EXECUTE FUNCTION refuse();
      """)
    let error = #expect(throws: DirectoryProblem.self) {
      try nodes.a.retire(DeviceID(1), nowSeconds: 1)
    }
    #expect("\(try #require(error))".contains("not known whether the change was made"))
    try nodes.sql("DROP TRIGGER refuse ON apus.file")
    try nodes.follow(nodes.a)
    #expect(try nodes.areEqual())
    try nodes.a.retire(DeviceID(2), nowSeconds: 1)
    try nodes.follow(nodes.b)
    #expect(try nodes.areEqual())
    #expect(try nodes.b.records().sections.count { $0.kind == "retired" } == 1)
  }

  @Test("A node that was away for long reads everything again, and drops what is gone")
  func longAbsence() throws {
    let nodes = try Nodes()
    let code = try nodes.a.enrolmentCodes.make(
      EnrolmentCodes.Record(name: nil, madeSeconds: 1, expiresSeconds: .max, uses: 1))
    try nodes.follow(nodes.b)
    _ = try nodes.a.enrolmentCodes.withdraw(hash: EnrolmentCodes.hash(code))
    try nodes.a.retire(DeviceID(1), nowSeconds: 1)
    // As after many changes.
    try nodes.sql("DELETE FROM apus.file WHERE content IS NULL")
    try nodes.sql("UPDATE apus.directory SET forgotten = 3")
    try nodes.follow(nodes.b)
    #expect(try nodes.areEqual())
  }

  @Test("A database that went back in time wins, and files that it lacks go")
  func wentBack() throws {
    let nodes = try Nodes()
    try nodes.sql("CREATE TABLE apus.copy AS SELECT * FROM apus.file")
    try nodes.a.retire(DeviceID(1), nowSeconds: 1)
    try nodes.follow(nodes.b)
    try nodes.sql(
      """
      DELETE FROM apus.file; INSERT INTO apus.file SELECT * FROM apus.copy;
      UPDATE apus.directory SET version = 1;
      """)
    try nodes.follow(nodes.a)
    try nodes.follow(nodes.b)
    #expect(try nodes.areEqual())
    #expect(try nodes.b.records().sections.count { $0.kind == "retired" } == 0)
  }

  @Test("The database has no content that can be read or changed without the cluster key")
  func encryption() throws {
    let nodes = try Nodes()
    let key = try text("\(nodes.a.path)/authority/devices.key").split(separator: "\n")[1]
    let readable = try nodes.sql(
      "SELECT count(*) FROM apus.file WHERE position(convert_to('\(key)', 'UTF8') IN content) > 0")
    #expect(readable == ["0"])
    let before = try nodes.shared(nodes.b)
    // The content of one file as that of another, in a new version.
    try nodes.sql(
      """
      UPDATE apus.file SET version = 2, content =
        (SELECT content FROM apus.file WHERE path = 'authority/service.crt') WHERE path = 'authority/devices.crt';
      UPDATE apus.directory SET version = 2;
      """)
    let error = #expect(throws: DirectoryProblem.self) { try nodes.follow(nodes.b) }
    #expect("\(try #require(error))".contains("another content of authority/devices.crt"))
    #expect(try nodes.shared(nodes.b) == before)
  }

  @Test("Paths that lead elsewhere are not written")
  func foreignPaths() throws {
    let nodes = try Nodes()
    let before = try nodes.shared(nodes.b)
    try nodes.sql(
      """
      INSERT INTO apus.file SELECT path.name, 0, 2, true, content FROM apus.file,
        (VALUES ('../x'), ('keys/../../x'), ('/etc/x'), ('store.url'), ('cluster/member'), ('keys//x'), ('keys'))
          AS path(name) WHERE path = 'sealing.keys';
      UPDATE apus.directory SET version = 2;
      """)
    try nodes.follow(nodes.b)
    #expect(try nodes.shared(nodes.b) == before)
    #expect(!FileManager.default.fileExists(atPath: "\(nodes.b.path)/../x"))
  }

  @Test("Journals of a node count only if it wrote last")
  func journals() throws {
    let nodes = try Nodes()
    let journal = "\(nodes.a.journalPath(ofPart: 0))/ledger-journal-0"
    func hasJournal() -> Bool { Files.exists(journal) }
    // From the time before there was a cluster.
    try Files.makeDirectory(nodes.a.journalPath(ofPart: 0))
    try Files.write("old", to: journal, isPrivate: true)
    try nodes.a.keepJournals(ofStart: 3, after: 2, part: 0)
    #expect(hasJournal())
    try nodes.a.keepJournals(ofStart: 4, after: 3, part: 0)
    #expect(hasJournal())
    // The starts of each part are numbered by themselves.
    try nodes.a.keepJournals(ofStart: 9, after: 8, part: 1)
    #expect(hasJournal())
    // Start 5 was another node's.
    try nodes.a.keepJournals(ofStart: 6, after: 5, part: 0)
    #expect(!hasJournal())
  }
}
