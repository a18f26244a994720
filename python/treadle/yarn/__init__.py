"""The public interface of YARN's daemons: their web pages."""
