package api

// LoseCount does what a feed does that has lost events.
func (s *Server) LoseCount() { s.hub.restart() }

// Resting says whether no frames are made.
func (s *Server) Resting() bool { return s.hub.current() == nil }
