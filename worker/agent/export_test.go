package agent

// What tests outside see of consoles.
var Relay = relay

// ConsoleStall is consoleStall.
const ConsoleStall = consoleStall
