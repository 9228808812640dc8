package main

import "sync"

// maxPart is the most that one request carries.
const maxPart = 256 << 10

// logStream sends a log as fast as the server takes it: what is written while a part is under way goes with the next.
type logStream struct {
	send func([]byte) error
	mu   sync.Mutex
	cond *sync.Cond
	buf  []byte
	end  bool
	dead bool // the server does not want it
	done chan struct{}
}

func newLogStream(send func([]byte) error) *logStream {
	s := &logStream{send: send, done: make(chan struct{})}
	s.cond = sync.NewCond(&s.mu)
	go s.loop()
	return s
}

func (s *logStream) write(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return
	}
	s.buf = append(s.buf, p...)
	s.cond.Signal()
}

// close sends the rest and returns when it is sent, or given up.
func (s *logStream) close() {
	s.mu.Lock()
	s.end = true
	s.cond.Signal()
	s.mu.Unlock()
	<-s.done
}

func (s *logStream) loop() {
	defer close(s.done)
	for {
		s.mu.Lock()
		for len(s.buf) == 0 && !s.end {
			s.cond.Wait()
		}
		if len(s.buf) == 0 {
			s.mu.Unlock()
			return
		}
		part := s.buf[:min(len(s.buf), maxPart)]
		s.buf = s.buf[len(part):]
		s.mu.Unlock()
		if s.send(part) != nil {
			s.mu.Lock()
			s.dead, s.buf = true, nil
			s.mu.Unlock()
			return
		}
	}
}
