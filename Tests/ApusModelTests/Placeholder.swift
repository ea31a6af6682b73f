import ApusModel
import Testing
