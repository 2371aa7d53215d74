"""The host link: UART and framing, or datagrams and sessions, and a bridge to the control and memory buses (twin: `models.link`)."""
