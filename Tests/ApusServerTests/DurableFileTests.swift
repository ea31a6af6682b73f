import ApusDirectory
import ApusTesting
import DiskFaults
import Testing

/// fsync(2): "Calling fsync() does not necessarily ensure that the entry in the directory containing the file has also
/// reached disk. For that an explicit fsync() on a file descriptor for the directory is also needed."
@Suite("Files that survive a loss of power")
struct DurableFileTests {
  private let folder = TemporaryDirectory()
  private var file: String { "\(folder.path)/file" }

  enum Act: Sendable, CaseIterable {
    case makeNew
    case replace
    case createOnce
    case remove
    case makeDirectory
    case makeDirectories
  }

  private func perform(_ act: Act) throws {
    switch act {
    case .makeNew, .replace: try Files.write([2], to: file, isPrivate: true)
    case .createOnce: #expect(try DurableFile.create([2], at: file))
    case .remove: try DurableFile.remove(file)
    case .makeDirectory: try Files.makeDirectory(file)
    case .makeDirectories: try Files.makeDirectory("\(file)/codes")
    }
  }

  @Test(
    "An act succeeds only after the folder with the new name is synced", arguments: Act.allCases)
  func folder(act: Act) throws {
    if act == .replace || act == .remove { try Files.write([1], to: file, isPrivate: true) }
    let fault = DiskFault(.folderSyncsFail, below: folder.path)
    do {
      try perform(act)
      Issue.record("\(act) reported success")
    } catch let error as FileError {
      #expect(error.operation == "sync" && error.path == folder.path, "\(error)")
    }
    #expect(fault.end() == 1)
  }

  @Test("A file that does not reach the disk does not replace the old one")
  func content() throws {
    try Files.write([1], to: file, isPrivate: true)
    let fault = DiskFault(.syncsFail, below: folder.path)
    #expect(throws: FileError.self) { try perform(.replace) }
    fault.end()
    #expect(try Files.read(file) == [1])
  }
}
