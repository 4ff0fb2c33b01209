'use strict';
(function () {
  var status = document.getElementById('status');
  if (typeof Terminal === 'undefined') {
    status.textContent = "The console proxy has no xterm.js: its machine lacks Debian's package node-xterm.";
    return;
  }
  // The token is good once: an address with it is of no use, and need not stay in the history.
  var token = new URLSearchParams(location.search).get('token');
  history.replaceState(null, '', location.pathname);
  var term = window.term = new Terminal({cols: 100, rows: 32, cursorBlink: true});
  term.open(document.getElementById('terminal'));
  var socket = new WebSocket(location.origin.replace(/^http/, 'ws') + location.pathname + '?token=' + encodeURIComponent(token), ['binary']);
  socket.binaryType = 'arraybuffer';
  var decoder = new TextDecoder(), encoder = new TextEncoder(), opened = false;
  socket.onopen = function () { opened = true; status.textContent = 'Connected'; term.focus(); };
  socket.onmessage = function (event) { term.write(decoder.decode(event.data, {stream: true})); };
  socket.onclose = function (event) {
    status.textContent = opened ? 'Disconnected. ' + event.reason : 'The token was used or has expired, or the server does not run. Ask for a new console.';
  };
  term.on('data', function (text) {
    if (socket.readyState === WebSocket.OPEN) socket.send(encoder.encode(text));
  });
}());
